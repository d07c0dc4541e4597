"""Values over time as columns of eighths of a cell, with the values of the top and the bottom at the side."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from textual.content import Content

from skyline_tui.figures import MUTED

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_AXIS = 10
"""Cells for a value at the side and a blank."""
_WIDEST = 4
"""Maximum width of a column, in cells."""


def column_chart(
    values: Sequence[float], texts: tuple[str, str], top: float, width: int, height: int
) -> Content:
    """Columns from 0 to ``top``; ``texts`` are the words for ``top`` and 0. Values that share a cell are averaged."""
    room = max(width - _AXIS, 8)
    columns = _columns(values, room)
    eighths = [round(8 * height * min(max(value / top, 0.0), 1.0)) if top > 0 else 0 for value in columns]
    rows: list[Content] = []
    for row in range(height):
        below = 8 * (height - 1 - row)
        cells = "".join(_EIGHTHS[min(max(level - below, 0), 8)] for level in eighths)
        text = texts[0] if row == 0 else texts[1] if row == height - 1 else ""
        rows.append(Content.assemble((f"{text:>{_AXIS - 2}} ", MUTED), ("│", MUTED), (cells, "$primary")))
    return Content("\n").join(rows)


def column_marks(count: int, marked: Collection[int], width: int) -> Content:
    """The row below a chart of ``count`` values, with a triangle under each marked one."""
    room = max(width - _AXIS, 8)
    each = min(room // count, _WIDEST) if 0 < count <= room else 0
    cells = [" "] * room
    for number in marked:
        cells[number * each if each else number * room // count] = "▲"
    return Content.assemble(" " * _AXIS, ("".join(cells).rstrip(), "$text-error"))


def _columns(values: Sequence[float], room: int) -> list[float]:
    """At most one value per cell; fewer values get several cells each."""
    if not values:
        return []
    if len(values) <= room:
        each = room // len(values)
        return [value for value in values for _ in range(min(each, _WIDEST))]
    edges = [len(values) * cell // room for cell in range(room + 1)]
    return [sum(values[begin:end]) / (end - begin) for begin, end in pairwise(edges) if end > begin]
