"""The history of a script over its commits: columns of time, and the page of ``skyline history``."""

from __future__ import annotations

from textual.content import Content

from skyline import units
from skyline.report.commit_history import HistoryReport, drawn_times
from skyline.report.pages.commit_history import history_page
from skyline_tui.figures import MUTED
from skyline_tui.views.view import rendered
from skyline_tui.widgets.column_chart import column_chart, column_marks

NO_PROFILE = "There is no saved profile of this script."
_ROWS = 8
_ABOVE = 1.05
"""The chart ends this much above the longest time."""


def over_commits(report: HistoryReport, width: int) -> Content:
    """A column for each state of the sources, oldest first, with a mark at each that became slower."""
    page = rendered(history_page(report), width)
    if len(report.states) < 2:
        return page
    title, times = drawn_times(report.states)
    values = [one.value for one in times]
    scale, top = units.time_scale(values), _ABOVE * max(values)
    slower = [number for number, one in enumerate(report.states) if one.verdict == "slower"]
    lines = [
        Content.assemble((title, "bold"), (", oldest commit first", MUTED)),
        column_chart(values, (scale.text(top), scale.text(0.0)), top, width, _ROWS),
    ]
    if slower:
        lines += [column_marks(len(values), slower, width), Content.styled("▲ slower, see below", MUTED)]
    return Content("\n").join([*lines, Content(""), page])
