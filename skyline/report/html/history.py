"""The page of ``skyline history``: charts of step time and peak memory over the states of a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from skyline import units
from skyline.interval import Interval
from skyline.report.commit_history import HistoryReport, StateReport, drawn_times
from skyline.report.document import Document
from skyline.report.html.chart import BOX, Chart, Dot, Mark, Tick, nice_ticks, tick_label, x_scale
from skyline.report.html.page import PageNames, as_script, filled
from skyline.report.pages.commit_history import change_text, commit_name, slower_text

_NAME_APART, _LABEL_APART = 70, 150
"""Room of a commit on the axis, and of the words above a mark."""
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

    Time is that of a step, or of a sample if batch sizes differ. States that are slower than the one before are marked
    with the change and the line that grew most.
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
    top = max(one.high for one in values) * scale.factor
    y_values = nice_ticks(top)
    y_top = max(y_values[-1], top) or 1.0

    def y(value: float) -> float:
        room = BOX.height - BOX.top - BOX.bottom
        return round(BOX.height - BOX.bottom - value * scale.factor / y_top * room, 1)

    x = x_scale(0, len(values) - 1, may_bend=False)
    places = [(x(number), y(value.value)) for number, value in enumerate(values)]
    highs = [f"{x(number)},{y(value.high)}" for number, value in enumerate(values)]
    lows = [f"{x(number)},{y(value.low)}" for number, value in enumerate(values)]
    first, last = values[0], values[-1]
    return Chart(
        title=title,
        unit=scale.unit,
        summary=f"{title} from {scale.text(first.value)} at {commit_name(report.states[0])} to "
        f"{scale.text(last.value)} at {commit_name(report.states[-1])}",
        dots=tuple(
            Dot(
                *at,
                "" if state.busy else report.mode,
                _label(state, scale.interval(value)),
                bool(state.grown),
            )
            for at, state, value in zip(places, report.states, values, strict=True)
        ),
        solid=" ".join(f"M{one[0]},{one[1]} L{other[0]},{other[1]}" for one, other in pairwise(places)),
        dashed="",
        band=f"M{' L'.join(highs)} L{' L'.join(reversed(lows))} Z",
        outside=(),
        x_ticks=_x_ticks(report.states, [number for number, _ in marked], x),
        y_ticks=tuple(Tick(y(value / scale.factor), tick_label(value, y_values[-1])) for value in y_values),
        now_x=None,
        limit=None,
        x_title="commit, oldest first",
        marks=_marks(marked, x),
    )


def _slower(states: Sequence[StateReport]) -> list[tuple[int, str]]:
    """The number of each state that is slower than the one before, and the change with the line that grew most."""
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


def _x_ticks(
    states: Sequence[StateReport], first: Sequence[int], x: Callable[[float], float]
) -> tuple[Tick, ...]:
    """Commits with room between them: those that are slower, the ends, then the others."""
    ticks: list[Tick] = []
    for number in (*first, len(states) - 1, 0, *range(len(states))):
        at = x(number)
        if all(abs(at - tick.at) >= _NAME_APART for tick in ticks):
            ticks.append(Tick(at, commit_name(states[number])))
    return tuple(ticks)


def _marks(marked: Sequence[tuple[int, str]], x: Callable[[float], float]) -> tuple[Mark, ...]:
    """A line each; words only where they have room, the latest first."""
    marks: list[Mark] = []
    for number, text in reversed(marked):
        at = x(number)
        room = all(abs(at - mark.at) >= _LABEL_APART for mark in marks if mark.label)
        side = "start" if at < BOX.left + _EDGE else "end" if at > BOX.width - BOX.right - _EDGE else "middle"
        marks.append(Mark(at, text if room else "", side))
    return tuple(marks)
