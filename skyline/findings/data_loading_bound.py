"""SKY101: the script waits while its own process loads the batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import step_ms
from skyline.findings.lines import dearest_lines
from skyline.graph.selection import select
from skyline.graph.task import PHASE, Part, TaskKind
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import CodeLine, Phase
from skyline.units import format_ms
from skyline.whatif.recording import has_loader_workers
from skyline.whatif.subject import Subject

_SHARE = 0.10
"""The TensorBoard plug-in reported from 5 % (``torch_tb_profiler``, ``data.py``). At that share, workers gain
little."""
_LINES = 3
_WORTH_NAMING = 0.1
"""Least share of the loading time for a line to be listed."""


@dataclass(frozen=True, slots=True)
class DataLoadingBound:
    """More than a tenth of the iteration is waiting for loaders without worker processes."""

    code: str = "SKY101"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the construction of the DataLoader; the cost is the time that the iteration waits for it."""
        place, cost_ms, evidence = _found(subject)
        total_ms = step_ms(subject)
        if cost_ms <= _SHARE * total_ms:
            return None
        unit = "a step" if subject.profile is None else "the iteration"
        return Finding.at(
            self.code,
            f"{cost_ms / total_ms:.0%} of {unit} is waiting for data, loaded in the script's own process",
            place,
            cost_ms,
            "num_workers",
            evidence,
        )


def _found(subject: Subject) -> tuple[CodeLine | None, float, tuple[Evidence, ...]]:
    if subject.recording is not None:
        return (None, 0.0, ()) if has_loader_workers(subject.recording) else _of_trace(subject)
    # Without timed batches, the prediction of the data set's host work is too inaccurate to name lines.
    if not subject.has_run and not subject.script.timed_reads:
        return None, 0.0, ()
    idle = [loader for loader in subject.script.loaders if loader.num_workers == 0]
    if not idle:
        return None, 0.0, ()
    place = next((loader.created_line for loader in idle if loader.created_line), None)
    others = tuple(
        Evidence.at("this loader has no workers", loader.created_line)
        for loader in idle
        if loader.created_line and loader.created_line != place
    )
    cost_ms = _waited_for(subject, subject.parts_ms[Part.LOADER])
    return place, cost_ms, (*_lines(subject), *others)


def _lines(baseline: Subject) -> Iterator[Evidence]:
    """The lines of the data set that take most of the loading time."""
    graph = baseline.graph
    tasks = graph.tasks
    loading = (tasks.phase == PHASE[Phase.DATA]) & (tasks.lane == tasks.lane_code(baseline.lane))
    chosen = np.flatnonzero(loading).astype(np.int64)
    took = (graph.durations + graph.gaps)[chosen]
    loop = baseline.script.loop_line
    for line, cost_us in dearest_lines(graph, chosen, took)[:_LINES]:
        own = loop is None or (line.file, line.line) != (loop.file, loop.line)
        if own and cost_us >= _WORTH_NAMING * took.sum():
            yield Evidence.at(f"{format_ms(cost_us / 1e3 / baseline.steps)} of an iteration", line)


def _of_trace(subject: Subject) -> tuple[CodeLine | None, float, tuple[Evidence, ...]]:
    graph = subject.graph
    loading = select(graph, kind=TaskKind.DATA, lane=subject.lane)
    if not len(loading):
        return None, 0.0, ()
    lines = dearest_lines(graph, loading, graph.durations[loading])
    loading_ms = float(graph.durations[loading].sum()) / subject.steps / 1e3
    return (lines[0][0] if lines else None), _waited_for(subject, loading_ms), ()


def _waited_for(subject: Subject, loading_ms: float) -> float:
    """The part of the loading time that the iteration waits for; a GPU may be busy meanwhile."""
    if not subject.on_gpu:
        return loading_ms
    return min(loading_ms, subject.critical_path.data * step_ms(subject))


RULE = DataLoadingBound()
