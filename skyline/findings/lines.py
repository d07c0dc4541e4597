"""Attribution of work to lines of the user's code."""

from __future__ import annotations

from collections import Counter

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph
from skyline.trace.record import CodeLine
from skyline.whatif.subject import Subject


def place_of_module(subject: Subject, path: str) -> CodeLine | None:
    """The line that constructs a module, else the one that calls it."""
    module = next((one for one in subject.script.modules if one.path == path), None)
    return None if module is None else module.created_line or module.call_line


def dearest_lines(graph: Graph, chosen: Indices, cost_us: Times) -> tuple[tuple[CodeLine, float], ...]:
    """The lines of the chosen tasks with their cost in µs, highest first. Tasks without a line are omitted.

    ``cost_us`` has one value per chosen task. A task without its own line counts for the executing line of the training
    loop.
    """
    tasks = graph.tasks
    lines: tuple[CodeLine, ...] = graph.structure.lines
    sums: Counter[tuple[str, int]] = Counter()
    first: dict[tuple[str, int], CodeLine] = {}
    own: list[int] = tasks.line[chosen].tolist()
    calling: list[int] = tasks.call_line[chosen].tolist()
    costs: list[float] = cost_us.tolist()
    for line, call_line, cost in zip(own, calling, costs, strict=True):
        index = line if 0 <= line < len(lines) else call_line
        if 0 <= index < len(lines):
            key = lines[index].file, lines[index].line
            first.setdefault(key, lines[index])
            sums[key] += cost  # type: ignore[assignment]
    return tuple((first[key], cost) for key, cost in sums.most_common())
