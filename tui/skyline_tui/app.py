"""The application of the terminal UI: its pages and key actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.screen import Screen
from textual.theme import Theme
from textual.widgets import ContentSwitcher

from skyline.report.protocol import BestParams, DevicesParams, QuestionParams, TuneParams
from skyline_tui.conversation import Conversation
from skyline_tui.editor import edit
from skyline_tui.keys import IN_PALETTE, KEYS, VIEW_KEYS
from skyline_tui.live_consent import LiveConsent
from skyline_tui.messages import Post
from skyline_tui.near_compositor import NearScreen
from skyline_tui.news import NewsApp
from skyline_tui.preferences import Preferences
from skyline_tui.screens.diff import Diff
from skyline_tui.screens.limits import Limits, TuneLimits, TypeBatchSize
from skyline_tui.screens.sheet import Help
from skyline_tui.session import ServerSession
from skyline_tui.views.devices import DevicesView
from skyline_tui.views.diff import DiffView
from skyline_tui.views.findings import FindingsView
from skyline_tui.views.lines import LinesView
from skyline_tui.views.log import LogView
from skyline_tui.views.memory import MemoryView
from skyline_tui.views.plan import PlanView
from skyline_tui.views.timeline import TimelineView
from skyline_tui.views.tune import TuneView
from skyline_tui.views.view import Place, View
from skyline_tui.views.watch import WatchView
from skyline_tui.widgets.controls import Controls
from skyline_tui.widgets.headline import Headline
from skyline_tui.widgets.keys import Keys
from skyline_tui.widgets.lines import Lines
from skyline_tui.widgets.panels import HEIGHTS, WIDTHS, Panels
from skyline_tui.widgets.phase_bar import PhaseBar
from skyline_tui.widgets.sort_table import SortTable
from skyline_tui.widgets.source import Source
from skyline_tui.widgets.status import Status
from skyline_tui.widgets.trouble import Trouble
from skyline_tui.widgets.verdict import VerdictLines
from skyline_tui.widgets.view_tabs import VIEWS, ViewTabs
from skyline_tui.widgets.whatifs import WhatIfs
from skyline_tui.widgets.workbench import Workbench


class Overview(View):
    """The first page, with all inputs of a question."""

    made = True

    def __init__(self, uri: str) -> None:
        super().__init__(id="overview", classes="view")
        self._uri = uri

    def compose(self) -> ComposeResult:
        yield VerdictLines()
        yield PhaseBar()
        yield Workbench(self._uri)

    def shown(self) -> None:
        self.query_one(Panels).focus_front()

    @property
    def place(self) -> Place | None:
        """The line under the cursor, or else the visible line."""
        return self.query_one(Workbench).place


PHASE_COLOURS = {
    "phase-data": "#d79b3f",
    "phase-forward": "#3f9bd7",
    "phase-backward": "#7d6fd6",
    "phase-optimizer": "#3fb68b",
    "phase-communication": "#c0609f",
    "phase-other": "#8a8f98",
}

SKYLINE = Theme(
    name="skyline",
    primary="#4aa8d8",
    secondary="#7d8fd6",
    accent="#e0a458",
    warning="#e0a458",
    error="#e06c75",
    success="#5fbf8f",
    foreground="#d8dee4",
    background="#12161c",
    surface="#181d25",
    panel="#212832",
    dark=True,
    variables={"footer-key-foreground": "#4aa8d8", "block-cursor-text-style": "bold"},
)


NO_PROFILE = "There is no profile yet."
_LONG = ("view-devices", "view-plan", "view-tune")
"""Pages with slow requests: going back cancels these first."""


class SkylineApp(NewsApp):
    """One script, or one recording. ``connect`` creates the session; its argument receives the server's messages."""

    TITLE = "Skyline"
    CSS_PATH = "app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*KEYS, *VIEW_KEYS]
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    def __init__(
        self,
        script: Path,
        connect: Callable[[Post], ServerSession],
        *,
        live: bool = True,
        preferences: Preferences | None = None,
        consent: LiveConsent | None = None,
    ) -> None:
        super().__init__(script, connect, live=live, consent=consent)
        chosen = preferences or Preferences()
        self.register_theme(SKYLINE)
        self.theme = chosen.theme if chosen.theme in self.available_themes else SKYLINE.name
        self.set_keymap(dict(chosen.keys))
        self._complaints = chosen.complaints(self.available_themes, [binding.id or "" for binding in KEYS])

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Colours of the phases, for themes that have none."""
        return PHASE_COLOURS

    def get_default_screen(self) -> NearScreen:
        """A screen that redraws little more than the changed parts."""
        return NearScreen()

    def compose(self) -> ComposeResult:
        yield Headline(self.script)
        yield ViewTabs()
        yield Trouble()
        with ContentSwitcher(initial="overview", id="views"):
            yield Overview(self._talk.uri)
            yield LinesView()
            yield TimelineView(self._talk.uri)
            yield MemoryView()
            yield DevicesView()
            yield DiffView(self._talk.uri)
            yield FindingsView()
            yield LogView()
            yield PlanView(self._talk.uri)
            yield WatchView(self.script)
            yield TuneView(self._talk.uri)
        yield Status()
        yield Keys()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Add the actions of the keys to the command palette."""
        yield from super().get_system_commands(screen)
        for view, title in VIEWS.items():
            yield SystemCommand(f"Go to {title}", f"Show the page {title}", partial(self.action_view, view))
        for binding in KEYS:
            if binding.id in IN_PALETTE:
                yield SystemCommand(
                    binding.description,
                    binding.tooltip or binding.description,
                    partial(self.run_action, binding.action),
                )

    def on_resize(self, event: events.Resize) -> None:
        """On a narrow screen, move the keys closer together so that all fit."""
        footer, narrow = self.query_one(Keys), event.size.width < WIDTHS[1][0]
        footer.compact, footer.show_command_palette = narrow, not narrow

    def on_mount(self) -> None:
        self.query_one(Headline).show_mode(live=self.live, runs=self._talk.runs)
        self.query_one(WhatIfs).focus()
        for complaint in self._complaints:
            self.notify(complaint, title="Your settings", severity="warning")
        self._do("start", self._talk.start)

    async def on_unmount(self) -> None:
        await self._talk.stop()

    # Pages.

    async def on_view_tabs_tab_chosen(self, message: ViewTabs.TabChosen) -> None:
        await self.action_view(message.view)

    async def action_view(self, view: str) -> None:
        while len(self.screen_stack) > 1:
            self.pop_screen()
        await self.query_one(f"#{view}", View).make()
        self.query_one(ContentSwitcher).current = view
        self.query_one(ViewTabs).activate(view)
        self._view.shown()

    @property
    def _view(self) -> View:
        return self.query_one(f"#{self.query_one(ContentSwitcher).current}", View)

    async def on_view_place_chosen(self, message: View.PlaceChosen) -> None:
        await self.action_view("view-lines")
        lines = self.query_one(LinesView)
        lines.open(message.file, message.line)
        lines.query_one(Source).focus()

    def on_verdict_lines_wanted(self, message: VerdictLines.Wanted) -> None:
        self._bench.check(message.whatif)

    async def on_findings_view_tried(self, message: FindingsView.Tried) -> None:
        await self.action_view("overview")
        if not self._bench.check(message.whatif):
            self.notify(f"{message.whatif} is not in the list of what-ifs", severity="warning")

    # Key actions.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow an action. Enter belongs to the lists unless keys moved a bar; panels are only on the first page."""
        if action == "settle":
            return bool(self.query(Controls)) and self.query_one(Controls).unsettled
        return True

    def action_step(self, change: int) -> None:
        self.query_one(Controls).step(change)

    def action_settle(self) -> None:
        self.query_one(Controls).settle()

    def action_type_batch_size(self) -> None:
        controls = self.query_one(Controls)
        if controls.current is None:
            self.notify(controls.why_not or NO_PROFILE, severity="warning")
            return
        self.push_screen(TypeBatchSize(controls.current), controls.typed)

    def action_apply(self) -> None:
        """Write the question into the code. On the pages of plans and trials, write the changes of the row."""
        if isinstance(self._view, PlanView):
            self._write_row(self._view)
        elif isinstance(self._view, TuneView):
            asked = self._view.question
            if asked is None:
                self.notify("There is no trial yet: press t to search.", severity="warning")
            else:
                self._write(asked)
        elif self._is_asked():
            self._write(self._bench.question)

    def _write_row(self, view: PlanView) -> None:
        row = view.row
        if row is None or not row.whatifs:
            self.notify(
                "Skyline writes code only for data and sharded parallelism (ddp, fsdp) of a script.",
                severity="warning",
            )
        else:
            self._write(QuestionParams(self._talk.uri, None, row.whatifs))

    def action_undo(self) -> None:
        self._do("apply", self._talk.revert)

    def action_diff(self) -> None:
        """Show the edits that apply would make. Without a question, show the edits made last."""
        if not self._bench.asks_nothing and not self._bench.is_applied:
            self._fetch("preview", "", self._preview, self._talk.session.preview, self._bench.question)
        elif self._last_written:
            self.push_screen(Diff.of_written(self._last_written))
        else:
            self._is_asked()

    def _is_asked(self) -> bool:
        if self._bench.asks_nothing:
            self.notify("There is no change to predict yet: drag a bar, or check a what-if first.")
        return not self._bench.asks_nothing

    def action_fastest(self) -> None:
        if self.profile is None:
            self.notify(NO_PROFILE, severity="warning")
            return
        if not self._talk.runs and self.profile.batch_size.value is None:
            self.notify("A trace does not show how much memory a change takes.", severity="warning")
            return
        memory = self.profile.memory
        usable = memory.usable_bytes or memory.capacity_bytes or memory.peak_bytes.value
        self.push_screen(Limits(self._talk.uri, float(usable)), self._search)

    def _search(self, limits: BestParams | None) -> None:
        if limits is not None:
            self._fetch("best", "", self._propose, self._talk.session.best, limits)

    def on_tune_view_search_wanted(self) -> None:
        if self.profile is None:
            self.notify(NO_PROFILE, severity="warning")
        elif self.query_one(Status).busy or self._verifying is not None:
            self.notify("The script is being measured: search when that is done.", severity="warning")
        else:
            resumable = self.query_one(TuneView).has_trials
            self.push_screen(TuneLimits(self._talk.uri, resumable=resumable), self._tune)

    def _tune(self, limits: TuneParams | None) -> None:
        if limits is not None:
            self._fetch("tune", "tune", self.query_one(TuneView).arrived, self._talk.session.tune, limits)

    def action_verify(self) -> None:
        if self.query_one(Status).busy or self._verifying is not None:
            self.notify("The script is being measured: verify when that is done.", severity="warning")
        elif self._is_asked():
            self._verifying = self._bench.question
            self._do("verify", self._talk.verify, self._verifying)

    async def action_devices(self) -> None:
        await self.action_view("view-devices")
        if self.query_one(Status).busy or self._verifying is not None:
            self.notify("The script is being measured: try again when that is done.", severity="warning")
        else:
            asked = DevicesParams(self._talk.uri)
            self._fetch("devices", "", self.query_one(DevicesView).arrived, self._talk.session.devices, asked)

    async def action_profile(self) -> None:
        """Measure again; start another server if the last one has ended."""
        if self._lost:
            await self._talk.stop()
            self._talk, self._lost = Conversation(self._connect(self.post_message), self.post_message), False
            self.query_one(Trouble).clear()
            self._do("start", self._talk.start)
        else:
            self._do("profile", self._talk.profile)

    def action_use_later(self) -> None:
        """Show the latest measurement although it was made on a busy machine."""
        if self.profile is None or not self.profile.set_aside:
            self.notify("The latest measurement is already shown.")
        else:
            self._do("use-later", self._talk.use_later)

    def action_cancel(self) -> None:
        self._verifying = None
        self._do("cancel", self._talk.cancel)

    async def action_back(self) -> None:
        """Cancel a comparison, a plan or a search, close a timeline, or go to the first page.

        On the first page, drop a verification, the question, or a run.
        """
        if self._view.id in _LONG and self.query_one(Status).busy:
            self.action_cancel()
        elif self._view.leave():
            return
        elif self._view.id != "overview":
            await self.action_view("overview")
        elif self._verifying is not None:
            self.action_cancel()
        elif not self._bench.asks_nothing or self.query_one(Controls).held:
            self._bench.drop()
        elif self.query_one(Status).busy:
            self.action_cancel()

    def action_sort(self) -> None:
        for table in self._view.query(SortTable):
            table.action_sort(1)
            return
        self.query_one(Lines).next_order()

    async def action_panel(self, name: str) -> None:
        if self._view.id != "overview":
            await self.action_view("overview")
        self.query_one(Panels).select(name)

    def action_help(self) -> None:
        self.push_screen(Help())

    def action_edit(self) -> None:
        """Open the line in the user's editor; the server notices the save."""
        problem = edit(self, *(self._view.place or (str(self.script), 1)))
        if problem:
            self.notify(problem, title="The editor did not open", severity="warning")
        for source in self.query(Source):
            source.reload()
