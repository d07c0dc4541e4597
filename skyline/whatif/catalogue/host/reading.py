"""The user's lines that read numbers from tensors, and their cost on the script's thread."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.task import ON_GPU, PHASE
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import CodeLine, Phase
from skyline.whatif.subject import Subject

READS = ("item", "tolist", "cpu", "numpy", "print", "float", "int", "format", "read")
"""Names of calls that need a tensor's numbers. Reading a truth value (``bool``) decides what runs next, so it stays."""


@dataclass(frozen=True, slots=True)
class ReadingLine:
    """A line that reads numbers: its ways to read (``item``, ``print``), reads per iteration, and time in all steps."""

    line: CodeLine
    ways: tuple[str, ...]
    per_iteration: float
    tasks: Indices
    cost_us: float

    def words(self, steps: int) -> str:
        """The line in words: ``train.py line 54 (item): 0.85 ms an iteration``."""
        ways = ", ".join(self.ways)
        cost = f"{self.cost_us / 1e3 / max(1, steps):.2g} ms an iteration"
        return f"{os.path.basename(self.line.file)} line {self.line.line} ({ways}): {cost}"


def reading_lines(subject: Subject, graph: Graph) -> tuple[ReadingLine, ...]:
    """The reading lines, the most expensive first; empty if none was recorded.

    Only work outside of passes and updates counts.
    """
    profile = subject.profile
    if profile is None:
        return ()
    told: dict[tuple[str, int], list[tuple[CodeLine, str, float]]] = {}
    for call in profile.calls:
        if call.name in READS and call.line is not None and "via" not in call.options:
            key = (call.line.file, call.line.line)
            told.setdefault(key, []).append((call.line, call.name, call.per_iteration))
    tasks = graph.tasks
    free = (
        (tasks.phase == PHASE[Phase.OTHER])
        & ~ON_GPU[tasks.kind]
        & (tasks.lane == tasks.lane_code(subject.lane))
    )
    found: list[ReadingLine] = []
    for key, calls in told.items():
        rows = [row for row, line in enumerate(graph.structure.lines) if (line.file, line.line) == key]
        chosen = np.flatnonzero(free & np.isin(tasks.line, rows)).astype(np.int64)
        cost = float((graph.durations + graph.gaps)[chosen].sum())
        ways = tuple(dict.fromkeys(name for _, name, _ in calls))
        found.append(ReadingLine(calls[0][0], ways, max(often for _, _, often in calls), chosen, cost))
    return tuple(sorted(found, key=lambda one: -one.cost_us))


def total_ms(lines: Sequence[ReadingLine], steps: int) -> float:
    """The time of the lines in an iteration, in ms."""
    return sum(one.cost_us for one in lines) / 1e3 / max(1, steps)
