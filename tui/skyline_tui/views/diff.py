"""The page of differences: edits to write or written, comparisons with earlier profiles, and time over commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static

from skyline import units
from skyline.report.basis import when
from skyline.report.commit_history import HistoryReport, drawn_times
from skyline.report.history import ComparisonReport, SavedProfile
from skyline.report.pages.commit_history import history_page
from skyline.report.pages.diff import diff_page
from skyline.report.protocol import CompareParams, PreviewResult
from skyline.report.schema import ProfileReport
from skyline_tui.figures import MUTED, tail
from skyline_tui.screens.diff import diff_lines, preview_lines
from skyline_tui.views.view import View, rendered
from skyline_tui.widgets.column_chart import column_chart, column_marks
from skyline_tui.widgets.row_list import RowList
from skyline_tui.workspace_edit import RewrittenFile

PENDING, WRITTEN, COMMITS = "pending", "written", "commits"


class ComparisonList(RowList):
    """The available comparisons: the requested change, the last written one, each earlier profile, all commits."""

    def __init__(self) -> None:
        super().__init__(id="diff-choices", classes="panel")
        self.border_title = "Before and after"
        self.current_id = ""
        self._saved: tuple[SavedProfile, ...] = ()
        self._pending = self._written = False

    def offer(self, saved: tuple[SavedProfile, ...] | None, *, pending: bool, written: bool) -> None:
        """Replace the choices. ``saved`` None keeps the profiles."""
        self._saved = self._saved if saved is None else saved
        self._pending, self._written = pending, written
        self.redraw()

    def rows(self, width: int) -> Iterable[tuple[str, Content]]:
        """One row per comparison, changes of the code first."""
        if self._pending:
            yield PENDING, Content("edits that apply would make")
        if self._written:
            yield WRITTEN, Content("latest edits")
        if len(self._saved) > 1:
            yield "head", Content.styled("now against the profile of:", MUTED)
        scale = units.time_scale(one.iteration_ms for one in self._saved)
        for one in self._saved:
            if one.id == self.current_id:
                continue
            batch = f" batch {one.batch_size}" if one.batch_size is not None else ""
            yield one.id, Content(tail(f"{when(one.created)}  {scale.text(one.iteration_ms)}{batch}", width))
        if len(self._saved) > 1:
            yield COMMITS, Content("all profiles, by commit")
        if not self._pending and not self._written and len(self._saved) < 2:
            yield "empty", Content.styled("nothing to compare yet: try a change, or measure twice", MUTED)


class DiffView(View):
    """The choices on the left, the selected comparison on the right."""

    @dataclass
    class HistoryWanted(Message):
        """Request for the saved profiles."""

    @dataclass
    class CommitsWanted(Message):
        """Request for the states over the commits."""

    @dataclass
    class CompareWanted(Message):
        """Request for a comparison."""

        params: CompareParams

    def __init__(self, uri: str) -> None:
        super().__init__(id="view-diff", classes="view page")
        self._uri = uri
        self._preview: PreviewResult | None = None
        self._written: tuple[RewrittenFile, ...] = ()
        self._compared: dict[str, ComparisonReport] = {}
        self._commits: HistoryReport | None = None
        self._now = ""
        """The id of the newest profile."""
        self._waiting = ""
        """The pending comparison."""
        self._newest = ""
        """The row of the newest edits."""

    def parts(self) -> ComposeResult:
        with Container(classes="two-panes"):
            yield ComparisonList()
            with VerticalScroll(id="diff-page", classes="panel") as page:
                page.border_title = "Difference"
                yield Static(id="diff-text")

    def show(self, profile: ProfileReport) -> None:
        """Show a new profile; comparisons with the last one are outdated."""
        self._compared.clear()
        self._commits = None
        self._waiting = ""
        self._now = profile.id
        if self.made:
            self.query_one(ComparisonList).current_id = profile.id
        if self.display:
            self.shown()

    def catch_up(self) -> None:
        self.query_one(ComparisonList).current_id = self._now
        if self._preview is not None or self._written:
            self._offer()

    def shown(self) -> None:
        self.post_message(self.HistoryWanted())
        self._tell()
        self.query_one(ComparisonList).focus()

    def propose(self, preview: PreviewResult | None) -> None:
        """Show the edits to write; None: no question."""
        self._preview = preview
        self._newest = PENDING if preview is not None else ""
        self._offer()

    def wrote(self, files: Sequence[RewrittenFile]) -> None:
        """Store the edits that were written."""
        self._written, self._preview = tuple(files), None
        self._newest = WRITTEN
        self._offer()

    def listed(self, saved: tuple[SavedProfile, ...]) -> None:
        """Show the list of profiles."""
        self.query_one(ComparisonList).offer(
            saved, pending=self._preview is not None, written=bool(self._written)
        )
        self._tell()

    def arrived(self, asked: CompareParams, report: ComparisonReport) -> None:
        """Show a comparison."""
        self._compared[asked.before] = report
        self._waiting = ""
        self._tell()

    def traced_back(self, report: HistoryReport | None) -> None:
        """Show the states over the commits."""
        self._waiting = ""
        if report is None:
            self.fail(NO_PROFILE)
            return
        self._commits = report
        self._tell()

    def fail(self, reason: str) -> None:
        self._waiting = ""
        self.query_one("#diff-text", Static).update(Content.styled(f"! {reason}", "$text-warning"))

    def on_option_list_option_highlighted(self, message: OptionList.OptionHighlighted) -> None:
        message.stop()
        self._tell()

    def resized(self) -> None:
        self._tell()

    def _offer(self) -> None:
        if not self.made:
            return
        choices = self.query_one(ComparisonList)
        choices.offer(None, pending=self._preview is not None, written=bool(self._written))
        ids = [option.id for option in choices.options]
        if self._newest in ids:
            choices.highlighted = ids.index(self._newest)
        self._tell()

    def _tell(self) -> None:
        option = self.query_one(ComparisonList).highlighted_option
        chosen = (option.id or "") if option is not None else ""
        page = self.query_one("#diff-text", Static)
        if chosen == PENDING and self._preview is not None:
            page.update(Content("\n").join(preview_lines(self._preview)))
        elif chosen == WRITTEN:
            page.update(Content("\n").join(self._written_lines()))
        elif chosen == COMMITS and self._commits is not None:
            width = self.query_one("#diff-page").scrollable_content_region.width
            page.update(over_commits(self._commits, width))
        elif chosen == COMMITS:
            page.update(Content.styled("reading the commits…", MUTED))
            if chosen != self._waiting:
                self._waiting = chosen
                self.post_message(self.CommitsWanted())
        elif chosen in self._compared:
            page.update(self._comparison(self._compared[chosen]))
        elif chosen and option is not None and not option.disabled:
            page.update(Content.styled("comparing…", MUTED))
            if chosen != self._waiting:
                self._waiting = chosen
                self.post_message(self.CompareWanted(CompareParams(self._uri, chosen)))
        else:
            page.update("")

    def _comparison(self, report: ComparisonReport) -> Content:
        """The page of ``skyline diff``, then the differences of the source."""
        found = report.profiles
        width = self.query_one("#diff-page").scrollable_content_region.width
        page = rendered(diff_page(found, base=Path(found.after.script).parent), width)
        source = diff_lines(report.source) or [Content("The code is the same.")]
        return Content("\n").join([page, Content(""), Content.styled("Source", "bold"), *source])

    def _written_lines(self) -> list[Content]:
        lines = [Content.styled("u undoes it", MUTED), Content("")]
        for file in self._written:
            lines += diff_lines(file.diff)
        return lines


NO_PROFILE = "There is no saved profile of this script."
_ROWS = 8
_ABOVE = 1.05
"""Upper end of the chart, as a multiple of the longest time."""


def over_commits(report: HistoryReport, width: int) -> Content:
    """A column for each state of the sources, oldest first, with a mark at each state that became slower."""
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
