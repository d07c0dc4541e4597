"""The page of a run under ``skyline watch``: time per iteration, shares, and alerts as they arrive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static

from skyline import units
from skyline.report.basis import when
from skyline.report.place import place
from skyline.watch.watch_report import WatchAlert, WatchPoint, WatchReport
from skyline_tui.figures import BAR, MUTED, flow, tail
from skyline_tui.views.view import Place, View
from skyline_tui.widgets.column_chart import column_chart
from skyline_tui.widgets.row_list import RowList

NOT_YET = (
    "This script has not been watched yet. Run skyline watch {script} in a terminal: it runs the training and checks "
    "it with rules, and this page follows the run."
)
_EVERY_S = 2.0
_CHART_ROWS, _LOW_ROWS, _LOW = 6, 2, 32
"""Rows of the chart, rows of the chart on a low screen, and the height below which a screen is low."""
_ABOVE = 1.1
"""Upper end of the chart, as a multiple of the larger of the latest and the usual times."""


class AlertRows(RowList):
    """One row per alert, the latest first."""

    def __init__(self) -> None:
        super().__init__(id="alert-rows", classes="panel")
        self.border_title = "Alerts, latest first (Enter opens the line)"
        self.alerts: tuple[WatchAlert, ...] = ()
        self.empty = ""

    def show(self, alerts: tuple[WatchAlert, ...], empty: str) -> None:
        """Show the alerts of a run, or the text ``empty`` if there are none."""
        self.alerts, self.empty = alerts, empty
        self.redraw()

    @property
    def current(self) -> WatchAlert | None:
        """The alert under the cursor."""
        option = self.highlighted_option
        if option is None or not (option.id or "").isdecimal():
            return None
        number = int(option.id or "0")
        return self.alerts[number] if number < len(self.alerts) else None

    def rows(self, width: int) -> Iterable[tuple[str, Content]]:
        """Iteration, rule and title. An alert that has ended is muted."""
        if not self.alerts:
            yield "empty", Content.styled(self.empty, MUTED)
        longest = max((len(one.rule) for one in self.alerts), default=0)
        for number in reversed(range(len(self.alerts))):
            one = self.alerts[number]
            over = one.over_iteration is not None
            words = tail(one.title, width - longest - 10)
            yield (
                str(number),
                Content.assemble(
                    (f"{one.iteration:>8,} ", MUTED),
                    (f"{one.rule:<{longest}} ", MUTED if over else "$text-warning"),
                    (words, MUTED if over else ""),
                ),
            )


class WatchView(View):
    """The chart above, the alerts and their evidence below."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("comma", "run(1)", "Earlier run", show=False, id="watch.earlier"),
        Binding("full_stop", "run(-1)", "Later run", show=False, id="watch.later"),
    ]

    @dataclass
    class RunWanted(Message):
        """Request for a run; None: the latest."""

        name: str | None

    def __init__(self, script: Path) -> None:
        super().__init__(id="view-watch", classes="view page")
        self._script = script
        self._report: WatchReport | None = None
        self._name: str | None = None

    def parts(self) -> ComposeResult:
        yield Static(id="watch-title", classes="view-title")
        with VerticalScroll(id="watch-chart", classes="panel") as panel:
            panel.border_title = "Time per iteration"
            yield Static(id="watch-columns")
        with Container(classes="two-panes"):
            yield AlertRows()
            with VerticalScroll(id="alert-story", classes="panel") as story:
                story.border_title = "Evidence"
                yield Static(id="alert-text")

    def catch_up(self) -> None:
        """Ask for news while the page is in front."""
        self._write()
        self.set_interval(_EVERY_S, self._ask)

    def shown(self) -> None:
        self._ask()
        self.query_one(AlertRows).focus()

    def arrived(self, report: WatchReport | None) -> None:
        """Show a run."""
        if report == self._report:
            return
        self._report = report
        self._write()

    def fail(self, reason: str) -> None:
        self.query_one("#watch-title", Static).update(Content.styled(f"! {reason}", "$text-warning"))

    @property
    def place(self) -> Place | None:
        alert = self.query_one(AlertRows).current
        return (alert.file, alert.line) if alert is not None and alert.line else None

    def action_run(self, step: int) -> None:
        """Go to an earlier or a later run."""
        report = self._report
        if report is None:
            return
        at = report.names.index(report.name) + step
        if 0 <= at < len(report.names):
            # None follows the latest run, even if a new one begins.
            self._name = report.names[at] if at else None
            self._ask()
        else:
            self.notify("There is no later run." if step < 0 else "There is no earlier run.")

    def resized(self) -> None:
        self._write()

    def on_option_list_option_highlighted(self, message: OptionList.OptionHighlighted) -> None:
        message.stop()
        self._tell()

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        if self.place is None:
            self.notify("This alert has no single line.")
        else:
            self.post_message(self.PlaceChosen(*self.place))

    def _ask(self) -> None:
        if self.display:
            self.post_message(self.RunWanted(self._name))

    def _write(self) -> None:
        report, width = self._report, max(self.size.width, 40)
        title, chart = self.query_one("#watch-title", Static), self.query_one("#watch-columns", Static)
        alerts = self.query_one(AlertRows)
        if report is None:
            title.update(Content.styled(NOT_YET.format(script=self._script.name), MUTED))
            chart.update("")
            alerts.show((), "no alerts")
            return
        title.update(flow(list(_facts(report)), width - 2))
        rows = _LOW_ROWS if self.app.size.height < _LOW else _CHART_ROWS
        chart.update(_chart(report, width - 6, rows))
        self.query_one("#watch-chart").border_subtitle = _span(report)
        alerts.show(report.alerts, "No rule has found a problem in this run.")
        self._tell()

    def _tell(self) -> None:
        alert = self.query_one(AlertRows).current
        text = self.query_one("#alert-text", Static)
        messages = self._report.messages if self._report is not None else ()
        text.update(Content("\n").join(_story(alert, messages, self._script.parent)))


def _facts(report: WatchReport) -> Iterator[Content]:
    tone = {"running": "$text-success", "silent": "$text-warning", "ended": ""}[report.state]
    if report.state == "ended":
        code = "unknown" if report.exit_code is None else report.exit_code
        words = "ended" if code == 0 else f"ended with exit code {code}"
    else:
        words = "running" if report.state == "running" else "no update for 30 s"
    yield Content.styled(words, f"bold {tone}".strip())
    yield Content(f"started {when(report.started)}")
    last = report.points[-1] if report.points else None
    if last is not None:
        yield Content(f"iteration {last.iteration:,}")
        yield Content(f"{units.format_ms(last.iteration_ms)} each")
        if last.loss is not None:
            yield Content(f"loss {last.loss:.4g}")
        if last.memory_bytes is not None:
            yield Content(units.format_bytes(last.memory_bytes))
    if report.logged is not None and report.logged.words:
        yield Content.styled(report.logged.words, "bold")
    if report.ranks > 1:
        yield Content(f"{report.ranks} ranks, the lowest is shown")
    if report.watching_share is not None:
        yield Content.styled(f"overhead {report.watching_share:.2%}", MUTED)
    if len(report.names) > 1:
        yield Content.styled(f"run {report.names.index(report.name) + 1} of {len(report.names)} (, .)", MUTED)


def _chart(report: WatchReport, width: int, rows: int) -> Content:
    points = report.points
    if not points:
        return Content.styled("No iteration has ended yet.", MUTED)
    times = [one.iteration_ms for one in points]
    # A single slow iteration, such as one with a checkpoint, would make all others flat.
    usual = sorted(times)[int(0.95 * (len(times) - 1))]
    top = _ABOVE * max(usual, times[-1])
    scale = units.time_scale([top])
    return Content("\n").join(
        [
            column_chart(times, (scale.text(top), scale.text(0.0)), top, width, rows),
            _shares(points, width),
        ]
    )


def _shares(points: tuple[WatchPoint, ...], width: int) -> Content:
    """The parts of an iteration over the latest tenth of the points."""
    latest = points[-max(1, len(points) // 10) :]
    wait = sum(one.wait_share for one in latest) / len(latest)
    forward = sum(one.forward_share for one in latest) / len(latest)
    parts = (
        ("waits for data", wait, "$phase-data"),
        ("forward", forward, "$phase-forward"),
        ("backward and step", max(0.0, 1 - wait - forward), "$phase-backward"),
    )
    room = max(8, min(40, width // 6))
    words = [
        Content.assemble((BAR * max(1, round(share * room)), colour), f" {name} {share:.0%}")
        for name, share, colour in parts
    ]
    return flow(words, width, gap=2)


def _span(report: WatchReport) -> str:
    if not report.points:
        return ""
    first, last = report.points[0].iteration, report.points[-1].iteration
    minutes, seconds = divmod(int(report.duration_s), 60)
    return f"iterations {first:,} to {last:,}, {minutes}:{seconds:02d} min"


def _story(alert: WatchAlert | None, messages: tuple[str, ...], base: Path) -> list[Content]:
    lines: list[Content] = []
    if alert is not None:
        lines += [Content.styled(alert.title, "bold"), Content("")]
        facts = {
            "rule": alert.rule,
            "where": place(alert.file, alert.line, base) if alert.line else "no single line",
            "ended": "not yet" if alert.over_iteration is None else f"at iteration {alert.over_iteration:,}",
        }
        lines += [Content.assemble((f"{name:<8}", MUTED), value) for name, value in facts.items()]
        lines += [Content(f"· {one}") for one in alert.evidence]
    if messages:
        lines += [Content(""), Content.styled("Messages", "bold"), *(Content(one) for one in messages[-5:])]
    return lines
