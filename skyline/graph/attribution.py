"""The phase, step, layer and source line of each task of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Codes, Ids
from skyline.graph.rules.draft import GraphDraft
from skyline.graph.rules.hand_off import Bursts
from skyline.graph.rules.layers import forward_rows, layers_of
from skyline.graph.rules.lines import lines_of
from skyline.graph.rules.phases import iterations_of, phases_of
from skyline.graph.rules.threads import HostThreads
from skyline.graph.tasks import PHASE
from skyline.trace.kineto.profiler_trace import MarkedSteps
from skyline.trace.phase import Phase
from skyline.trace.record import CodeLine


@dataclass(frozen=True, slots=True, eq=False)
class TaskAttribution:
    """Columns for all tasks of a draft, in its numbering, and the tables that they index."""

    phase: Codes
    iteration: Ids
    module: Ids
    line: Ids
    call_line: Ids
    modules: tuple[str, ...]
    lines: tuple[CodeLine, ...]


def attributed(draft: GraphDraft, hosts: HostThreads, steps: MarkedSteps, bursts: Bursts) -> TaskAttribution:
    """GPU work inherits from the call that launched it; collectives always count as communication."""
    trace, pieces = draft.trace, draft.pieces
    iteration = iterations_of(pieces, steps)
    phase = phases_of(trace, draft.names, hosts, pieces, iteration, bursts)
    forward = forward_rows(trace, pieces, phase == PHASE[Phase.BACKWARD])
    layers = layers_of(trace, draft.names, pieces, forward)
    lines = lines_of(trace, forward)
    of_all = _with_launched(draft, phase, PHASE[Phase.OTHER])
    of_all[draft.first_work :][draft.names.collective[draft.work.event]] = PHASE[Phase.COMMUNICATION]
    return TaskAttribution(
        of_all,
        _with_launched(draft, iteration, 0),
        _with_launched(draft, layers.module, -1),
        _with_launched(draft, lines.line, -1),
        _with_launched(draft, lines.call_line, -1),
        layers.names,
        lines.lines,
    )


def _with_launched(draft: GraphDraft, column: npt.NDArray[Any], missing: int) -> npt.NDArray[Any]:
    """The column extended to GPU work with the values of its launches."""
    launched = np.full(len(draft.work), missing).astype(column.dtype)
    known = np.flatnonzero(draft.launch >= 0)
    launched[known] = column[draft.launch[known]]
    return np.concatenate([column, launched])
