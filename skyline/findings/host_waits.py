"""SKY202: the script waits for its GPU inside the loop, to read a value."""

from __future__ import annotations

import numpy as np

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import spared_ms, step_ms
from skyline.graph.column import Indices
from skyline.graph.dependency import Cause
from skyline.graph.graph import cut_dependencies
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import CodeLine
from skyline.units import how_often
from skyline.whatif.base import Grain
from skyline.whatif.catalogue.host.reading import READS
from skyline.whatif.catalogue.host.remove_sync import own_waits
from skyline.whatif.subject import Subject

_SHARE = 0.02
_LINES = 4


@dataclass(frozen=True, slots=True)
class HostWaits:
    """Waits for the GPU lengthen the iteration by more than a fiftieth.

    Nsight Systems has this rule without a threshold (``cuda_api_sync``).
    """

    code: str = "SKY202"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the line that waits most often; the cost is the saving without any wait."""
        if not subject.on_gpu:
            return None
        graph = subject.graph_of(Grain.OPERATORS)
        waiting = own_waits(subject, graph)
        if not len(waiting):
            return None
        total_ms = step_ms(subject)
        cost_ms = spared_ms(subject, graph, cut_dependencies(graph, cause=Cause.SYNC, target=waiting))
        if cost_ms <= _SHARE * total_ms:
            return None
        lines = _lines(subject, waiting)
        each = len(waiting) / max(1, subject.count)
        return Finding.at(
            self.code,
            f"the script stops {how_often(each)} in an iteration to wait for the GPU",
            lines[0][0] if lines else None,
            cost_ms,
            "remove_sync",
            tuple(Evidence.at(text, line) for line, text in lines[:_LINES]),
        )


def _lines(subject: Subject, waiting: Indices) -> list[tuple[CodeLine, str]]:
    """The waiting lines, the most frequent first, with the reading call if the run recorded it."""
    graph = subject.graph_of(Grain.OPERATORS)
    tasks, lines = graph.tasks, graph.structure.lines
    own = tasks.line[waiting]
    index = np.where(own >= 0, own, tasks.call_line[waiting])
    used, counts = np.unique(index[(index >= 0) & (index < len(lines))], return_counts=True)
    reads: dict[tuple[str, int], str] = {}
    for call in () if subject.profile is None else subject.profile.calls:
        if call.name in (*READS, "bool") and call.line is not None:
            reads.setdefault((call.line.file, call.line.line), call.name)
    found: list[tuple[CodeLine, str]] = []
    for place in np.argsort(-counts, kind="stable").tolist():
        line = lines[int(used[place])]
        call = reads.get((line.file, line.line))
        found.append((line, f"the script waits here{f', in {call}()' if call else ''}"))
    return found


RULE = HostWaits()
