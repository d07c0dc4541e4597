"""The page of the training on a cluster: ranked strategies, their reasons, and the timeline of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import DataTable, Static

from skyline import units
from skyline.report.pages.plan import dollar_words, hours_words, rate_words, row_page
from skyline.report.plan_report import PlanChoices, PlanReport, PlanRow
from skyline.report.protocol import PlanExportParams, PlanParams, PlanTimelineParams
from skyline.report.timeline_report import TimelineReport
from skyline_tui.figures import MUTED, flow
from skyline_tui.views.view import View, rendered
from skyline_tui.widgets.lanes import Lanes
from skyline_tui.widgets.plan_question import PlanQuestion
from skyline_tui.widgets.sort_table import SortTable, TableColumn

NOT_YET = (
    "No plan yet. Choose a cluster, which need not be present: Skyline traces the tensor shapes of the script for its "
    "GPU and runs nothing there. A model chosen by name, such as llama3-8b, needs no trace."
)
_KEYS = "Enter timeline, a code, x Perfetto"
_NARROW = 100
"""Width, in cells, below which the table omits its words; the text of the row has them."""


class PlanView(View):
    """The question above, then the table, then the chosen row in words or as a timeline."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "export", "Save the row's timeline for Perfetto", show=False, id="plan.export"),
    ]

    @dataclass
    class ChoicesWanted(Message):
        """Request for the clusters and models."""

    @dataclass
    class PlanWanted(Message):
        """Request for a plan."""

        params: PlanParams

    @dataclass
    class TimelineWanted(Message):
        """Request for a window of a row's timeline."""

        params: PlanTimelineParams

    @dataclass
    class ExportWanted(Message):
        """Request for a row's timeline as a file."""

        params: PlanExportParams

    def __init__(self, uri: str) -> None:
        super().__init__(id="view-plan", classes="view page")
        self._uri = uri
        self._asked = PlanParams(uri, "")
        self._report: PlanReport | None = None
        self._opened: PlanTimelineParams | None = None

    def parts(self) -> ComposeResult:
        yield Static(Content.styled(NOT_YET, MUTED), id="plan-title", classes="view-title")
        yield PlanQuestion(self._uri)
        table: SortTable[PlanRow] = SortTable(_shape(None, narrow=True), sorted_by=0, table_id="plan-table")
        table.border_title = "Strategies"
        yield table
        with VerticalScroll(id="plan-page", classes="panel") as page:
            page.border_title = "Selected row, and strategies not in the table"
            yield Static(id="plan-text")
        yield Lanes()
        yield Static(id="plan-detail", classes="view-detail")

    @property
    def row(self) -> PlanRow | None:
        """The row under the cursor."""
        return self._table.current

    @property
    def _table(self) -> SortTable[PlanRow]:
        return self.query_one("#plan-table", SortTable)

    def shown(self) -> None:
        if self._report is None:
            self.post_message(self.ChoicesWanted())
        if self._report is not None and self._report.rows:
            self._table.focus()
        else:
            self.query_one(PlanQuestion).focus_first()

    def offer(self, choices: PlanChoices) -> None:
        """Show the clusters and models."""
        self.query_one(PlanQuestion).offer(choices)

    def arrived(self, asked: PlanParams, report: PlanReport) -> None:
        """Show a plan."""
        self._asked, self._report, self._opened = asked, report, None
        self.set_class(False, "-timeline")
        self._table.border_subtitle = _KEYS if report.rows else ""
        self._table.fill(report.rows, _shape(report, narrow=self.size.width < _NARROW))
        self._write()
        if report.rows:
            self._table.focus()

    def fail(self, reason: str) -> None:
        """Show the reason why there is no plan. The same question may be asked again."""
        self.query_one(PlanQuestion).forget()
        self.query_one("#plan-title", Static).update(Content.styled(f"! {reason}", "$text-warning"))

    def opened(self, asked: PlanTimelineParams, report: TimelineReport) -> None:
        """Show the timeline of a row, or finer data of a window of it."""
        if self._opened is None or (asked.plan, asked.row) != (self._opened.plan, self._opened.row):
            return
        lanes = self.query_one(Lanes)
        anew = asked.beginMs is None
        if anew:
            self.set_class(True, "-timeline")
            lanes.focus()
        if anew or (asked.beginMs, asked.endMs) == (lanes.window.begin_ms, lanes.window.end_ms):
            lanes.show(report, anew=anew)
        self._describe()

    def leave(self) -> bool:
        if self._opened is None:
            return False
        self._opened = None
        self.set_class(False, "-timeline")
        self._table.focus()
        return True

    def on_plan_question_asked(self, message: PlanQuestion.Asked) -> None:
        message.stop()
        self.query_one("#plan-title", Static).update(
            Content.styled(f"planning on {message.params.cluster}…", MUTED)
        )
        self.post_message(self.PlanWanted(message.params))

    def on_data_table_row_highlighted(self, message: DataTable.RowHighlighted) -> None:
        message.stop()
        self._write()

    def on_data_table_row_selected(self, message: DataTable.RowSelected) -> None:
        message.stop()
        if self.row is not None:
            self._opened = PlanTimelineParams(self._asked, self.row.rank)
            self.post_message(self.TimelineWanted(self._opened))

    def on_lanes_window_moved(self, message: Lanes.WindowMoved) -> None:
        message.stop()
        window = message.window
        if self._opened is not None:
            asked = replace(self._opened, beginMs=window.begin_ms, endMs=window.end_ms, most=2 * window.cells)
            self.post_message(self.TimelineWanted(asked))
        self._describe()

    def on_lanes_cursor_moved(self, message: Lanes.CursorMoved) -> None:
        message.stop()
        self._describe()

    def on_lanes_task_opened(self, message: Lanes.TaskOpened) -> None:
        """Ignore the message, because the work of a plan has no line."""
        message.stop()

    def resized(self) -> None:
        self._write()
        self._describe()

    def action_export(self) -> None:
        row = self.row
        if row is None:
            self.notify("There is no row yet: choose a cluster first.", severity="warning")
            return
        name = PurePath(self._asked.cluster).name.removesuffix(".toml")
        stem = PurePath(self._asked.model).stem or PurePath(self._uri).stem
        path = f"{stem}.{name}.{row.rank}.perfetto.json.gz"
        self.post_message(self.ExportWanted(PlanExportParams(self._asked, row.rank, path)))

    def _write(self) -> None:
        report = self._report
        if report is None:
            return
        width = max(self.size.width - 2, 20)
        title = Content.styled(report.advice, "$text-warning")
        if report.rows:
            parts = [
                Content.styled(f"{report.model} on {report.cluster} ({report.gpu})", "bold"),
                Content(f"{report.fitting:,} of {report.considered:,} strategies can be used"),
                Content(f"figures are {report.provenance}"),
            ]
            title = flow(parts, width)
        self.query_one("#plan-title", Static).update(title)
        page = rendered(row_page(report, self.row), self.size.width - 8)
        self.query_one("#plan-text", Static).update(page)

    def _describe(self) -> None:
        lanes = self.query_one(Lanes)
        if lanes.report is None or self._opened is None:
            return
        keys = Content.styled("drag or ← →, wheel or + − zooms, Home all, Esc closes", MUTED)
        width = max(self.size.width - 2, 20)
        self.query_one("#plan-detail", Static).update(flow([*lanes.work_words, keys], width))


def _shape(report: PlanReport | None, *, narrow: bool) -> list[TableColumn[PlanRow]]:
    rows = report.rows if report is not None else ()
    times = units.time_scale([row.step_ms.value for row in rows] or [1.0])
    columns = [
        TableColumn[PlanRow]("#", lambda row: str(row.rank), lambda row: row.rank, largest_first=False),
        TableColumn[PlanRow](
            "strategy",
            lambda row: row.label,
            lambda row: row.label,
            left=True,
            largest_first=False,
            flexible=True,
        ),
        TableColumn[PlanRow](
            "step",
            lambda row: f"{times.number_with_spread(row.step_ms)} {times.unit}",
            lambda row: row.step_ms.value,
            largest_first=False,
        ),
        TableColumn[PlanRow](
            f"{report.unit if report is not None else 'samples'}/s",
            lambda row: rate_words(row.units_per_s),
            lambda row: row.units_per_s.value,
        ),
        TableColumn[PlanRow]("MFU", lambda row: units.format_share(row.mfu), lambda row: row.mfu),
        TableColumn[PlanRow](
            "memory",
            lambda row: units.format_bytes(row.memory_bytes.value),
            lambda row: row.memory_bytes.value,
            largest_first=False,
        ),
    ]
    if len({row.gpus for row in rows}) > 1:
        columns.insert(2, TableColumn[PlanRow]("GPUs", lambda row: str(row.gpus), lambda row: row.gpus))
    if any(row.hours for row in rows):
        columns += [
            TableColumn[PlanRow](
                "time",
                lambda row: hours_words(row.hours),
                lambda row: row.hours.value if row.hours else None,
                largest_first=False,
            ),
            TableColumn[PlanRow](
                "cost",
                lambda row: dollar_words(row.usd),
                lambda row: row.usd.value if row.usd else None,
                largest_first=False,
            ),
        ]
    if not narrow:
        columns.append(
            TableColumn[PlanRow](
                "limited by",
                lambda row: f"! {row.objection}" if row.objection else row.limit,
                lambda row: row.objection or row.limit,
                left=True,
                largest_first=False,
            )
        )
    return columns
