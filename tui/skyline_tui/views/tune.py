"""The page of a search for the fastest combination: trials, the best so far, the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from skyline import units
from skyline.report.protocol import QuestionParams
from skyline.report.schema import ProfileReport
from skyline.report.tune import TuneProgress, TuneReport, sentences
from skyline.tune.trials import TuneTrial
from skyline_tui.figures import BAR, MUTED, flow
from skyline_tui.views.view import View
from skyline_tui.widgets.sort_table import SortTable, TableColumn

NOT_YET = (
    "No search yet. Press t to search for the fastest combination of changes: simulations propose "
    "combinations, and each trial is "
    "measured in turns with the unchanged script, in memory. No file is changed."
)
_BATCH = "batch_size="


class TuneView(View):
    """The budget above, the trials as a table, the outcome in words below."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "search", "Search", show=False, id="tune.search"),
    ]

    @dataclass
    class SearchWanted(Message):
        """The user wants a search, and is first asked for its limits."""

    @dataclass
    class TrialsWanted(Message):
        """Request for the trials of the last search."""

    def __init__(self, uri: str) -> None:
        super().__init__(id="view-tune", classes="view page")
        self._uri = uri
        self._progress: TuneProgress | None = None
        self._report: TuneReport | None = None
        self._failure = ""

    def parts(self) -> ComposeResult:
        yield Static(Content.styled(NOT_YET, MUTED), id="tune-title", classes="view-title")
        table: SortTable[TuneTrial] = SortTable(_shape(None), sorted_by=2, table_id="tune-table")
        table.border_title = "Trials (t searches, a writes the row, s sorts)"
        yield table
        with VerticalScroll(id="tune-page", classes="panel") as page:
            page.border_title = "Outcome"
            yield Static(id="tune-text")

    def show(self, profile: ProfileReport) -> None:
        """Drop the trials of an earlier profile, because trials belong to one profile."""
        if self._progress is None or not self._progress.running:
            self._progress = self._report = None
            self._write()
            if self.display:
                self.shown()

    def shown(self) -> None:
        """Request the trials of the last search, which may have run in a terminal, and focus the table."""
        if self._progress is None:
            self.post_message(self.TrialsWanted())
        self.query_one(SortTable).focus()

    def resumable(self, news: TuneProgress | None) -> None:
        """Show the trials of the last search, if there was one."""
        if news is not None:
            self.moved(news)

    def moved(self, news: TuneProgress) -> None:
        """Show the state of the search."""
        if news.running:
            self._report, self._failure = None, ""
        self._progress = news
        self._write()

    def arrived(self, report: TuneReport) -> None:
        """Show the result of the search."""
        self._report = report
        self._write()

    def fail(self, reason: str) -> None:
        self._failure = reason
        self._write()

    @property
    def searching(self) -> bool:
        """True during a search."""
        return self._progress is not None and self._progress.running

    @property
    def has_trials(self) -> bool:
        """True if a search can continue from earlier trials."""
        return self._progress is not None and bool(self._progress.trials)

    @property
    def question(self) -> QuestionParams | None:
        """The changes of the row under the cursor, to write into the code. None if there is no row."""
        row = self._table.current
        if row is None:
            return None
        sizes = [one.removeprefix(_BATCH) for one in row.changes if one.startswith(_BATCH)]
        others = tuple(one for one in row.changes if not one.startswith(_BATCH))
        return QuestionParams(self._uri, int(sizes[0]) if sizes else None, others)

    def action_search(self) -> None:
        """Start a search, or say that one is running."""
        if self.searching:
            self.notify("A search is running: c cancels it and keeps its trials.")
        else:
            self.post_message(self.SearchWanted())

    def resized(self) -> None:
        self._write()

    @property
    def _table(self) -> SortTable[TuneTrial]:
        return self.query_one("#tune-table", SortTable)

    @property
    def _best(self) -> TuneTrial | None:
        if self._report is not None:
            return self._report.best
        progress = self._progress
        return None if progress is None or progress.best is None else progress.trials[progress.best]

    def catch_up(self) -> None:
        self._write()

    def _write(self) -> None:
        if not self.made:
            return
        progress, report, best = self._progress, self._report, self._best
        trials = report.trials if report is not None else progress.trials if progress is not None else ()
        table = self._table
        at = table.current
        table.fill(trials, _shape(best))
        # The cursor stays on its trial during a search and moves to the best one afterwards.
        wanted = best if report is not None or at is None else at
        table.go_to(lambda one: one == wanted)
        title, text = self.query_one("#tune-title", Static), self.query_one("#tune-text", Static)
        width = max(self.size.width, 40)
        if self._failure:
            title.update(Content.styled(f"! {self._failure}", "$text-warning"))
        elif report is not None:
            title.update(Content(f"{report.spent_s:.0f} s of {report.budget_s:.0f} s used, {report.ended}"))
        elif progress is not None and (progress.running or progress.trials):
            title.update(_state(progress, width - 2))
        else:
            title.update(Content.styled(NOT_YET, MUTED))
        if report is not None:
            text.update(Content("\n").join(_outcome(report)))
        elif best is not None and best.speedup is not None:
            words = f"Best so far: {units.format_ratio_range(best.speedup)} samples per second with "
            text.update(Content.assemble(words, (" ".join(best.changes), "bold"), "."))
        else:
            text.update("")


def _outcome(report: TuneReport) -> list[Content]:
    """The outcome in words, the command for it, and the changes that the search left out."""
    first, *others = sentences(report)
    lines = [Content.styled(first, "bold"), *map(Content, others)]
    if report.outcome == "faster":
        lines.append(Content(f"Press a on the best row to write it, or run: {report.command}"))
    if report.left_out:
        lines += [Content(""), Content.styled("Left out", "bold")]
        lines += [Content(f"· {one}") for one in report.left_out]
    return lines


def _state(progress: TuneProgress, width: int) -> Content:
    """The budget as a bar, the best trial so far and the current step. For an earlier search, its number of trials."""
    if not progress.running:
        count = units.plural(len(progress.trials), "trial")
        return Content(
            f"{count} of the last search for this profile. Press t to search again, or to continue from them."
        )
    room = max(10, min(40, width // 3))
    used = min(room, round(room * progress.spent_s / max(progress.budget_s, 1e-9)))
    left_s = max(0, int(progress.budget_s - progress.spent_s))
    bar = Content.assemble((BAR * used, "$primary"), (BAR * (room - used), "$foreground 25%"))
    parts = [
        bar + Content(f" {left_s // 60}:{left_s % 60:02d} of {progress.budget_s / 60:.3g} min left"),
        Content(units.plural(len(progress.trials), "trial")),
        Content.styled(progress.doing, MUTED),
    ]
    return flow(parts, width)


def _shape(best: TuneTrial | None) -> list[TableColumn[TuneTrial]]:
    def note(one: TuneTrial) -> str:
        if one == best:
            return "◀ best"
        return f"dropped: {one.reason}" if one.dropped else f"uncertain: {one.reason}" if one.reason else ""

    return [
        TableColumn[TuneTrial](
            "changes",
            lambda one: " ".join(one.changes),
            lambda one: " ".join(one.changes),
            left=True,
            largest_first=False,
        ),
        TableColumn[TuneTrial](
            "predicted",
            lambda one: units.format_ratio_range(one.predicted),
            lambda one: one.predicted.value,
        ),
        TableColumn[TuneTrial](
            "measured",
            lambda one: "failed" if one.speedup is None else units.format_ratio_range(one.speedup),
            lambda one: None if one.speedup is None else one.speedup.value,
        ),
        TableColumn[TuneTrial](
            "peak memory",
            lambda one: "" if one.peak_bytes is None else units.format_bytes(one.peak_bytes),
            lambda one: one.peak_bytes,
            largest_first=False,
        ),
        TableColumn[TuneTrial](
            "time", lambda one: f"{one.took_s:.0f} s", lambda one: one.took_s, largest_first=False
        ),
        TableColumn[TuneTrial]("", note, note, left=True, flexible=True),
    ]
