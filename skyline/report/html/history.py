"""The page of ``skyline history``: charts of step time and peak memory over the states of a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from skyline import units
from skyline.interval import Interval
from skyline.report.commit_history import HistoryReport, StateReport, drawn_times
from skyline.report.document import Document
from skyline.report.html.chart import BOX, Chart, Mark, Sample, UprightAxis, line_chart, spaced, x_scale
from skyline.report.html.page import PageNames, as_script, filled
from skyline.report.pages.commit_history import change_text, commit_name, slower_text

_NAME_APART, _LABEL_APART = 70, 150
"""The room for a commit on the axis, and for the label above a mark."""
_EDGE = 80


def render_history(page: Document, report: HistoryReport) -> str:
    """The page as one string of HTML, with the report in it as JSON."""
    name = " ".join((report.script, *report.arguments))
    last = report.states[-1]
    headline = (
        f"{units.plural(len(report.states), 'state')}, now {units.format_ms(last.iteration_ms.value)} a step"
    )
    names = PageNames(f"{name}: history", headline, "History")
    return filled(page, names, as_script({"history": report}), {"curve": history_charts(report)})


def history_charts(report: HistoryReport) -> tuple[Chart, ...]:
    """Time and memory over the states, oldest first; none for a single state.

    The time is per step, or per sample if batch sizes differ. A state that is slower than the previous one is
    marked with the change and the line that grew most.
    """
    states = report.states
    if len(states) < 2:
        return ()
    title, times = drawn_times(states)
    sizes = [Interval.exact(float(one.peak_bytes)) for one in states]
    return (
        _chart(
            title,
            units.time_scale([max(one.value for one in times)]),
            times,
            report,
            _slower(states),
        ),
        _chart("Peak memory", units.byte_scale([max(one.value for one in sizes)]), sizes, report, ()),
    )


def _chart(
    title: str,
    scale: units.UnitScale,
    values: Sequence[Interval],
    report: HistoryReport,
    marked: Sequence[tuple[int, str]],
) -> Chart:
    axis = UprightAxis.up_to(max(one.high for one in values), scale.factor)
    states = report.states
    x = x_scale(0, len(values) - 1, may_bend=False)
    samples = [
        Sample(
            x(number),
            value,
            "" if state.busy else report.mode,
            _label(state, scale.interval(value)),
            bool(state.grown),
        )
        for number, (state, value) in enumerate(zip(states, values, strict=True))
    ]
    # Commits that are slower get their labels first, then both ends.
    order = (*(number for number, _ in marked), len(states) - 1, 0, *range(len(states)))
    chart = line_chart(
        title,
        scale.unit,
        axis,
        samples,
        spaced(((x(number), commit_name(states[number])) for number in order), _NAME_APART),
        summary=f"{title} from {scale.text(values[0].value)} at {commit_name(states[0])} to "
        f"{scale.text(values[-1].value)} at {commit_name(states[-1])}",
        x_title="commit, oldest first",
    )
    return replace(chart, marks=_marks(marked, x))


def _slower(states: Sequence[StateReport]) -> list[tuple[int, str]]:
    """The number of each state that is slower than the previous one, the change, and the line that grew most."""
    return [
        (
            number,
            f"{change_text(one)} {one.grown[0].file}:{one.grown[0].line}" if one.grown else change_text(one),
        )
        for number, one in enumerate(states)
        if one.verdict == "slower"
    ]


def _label(state: StateReport, value: str) -> str:
    parts = [f"{commit_name(state)}: {value}"]
    if state.subject:
        parts.append(state.subject)
    if state.busy:
        parts.append("the machine was busy")
    return "\n".join([", ".join(parts), *slower_text(state)])


def _marks(marked: Sequence[tuple[int, str]], x: Callable[[float], float]) -> tuple[Mark, ...]:
    """One line per mark; labels only if there is room, the latest first."""
    marks: list[Mark] = []
    for number, text in reversed(marked):
        at = x(number)
        room = all(abs(at - mark.at) >= _LABEL_APART for mark in marks if mark.label)
        side = "start" if at < BOX.left + _EDGE else "end" if at > BOX.width - BOX.right - _EDGE else "middle"
        marks.append(Mark(at, text if room else "", side))
    return tuple(marks)
