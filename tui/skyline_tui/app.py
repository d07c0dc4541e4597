"""The main screen: what the server knows of a script, and what the person asks of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Footer

from skyline.report.protocol import ApplyResult, BestParams, DevicesParams, QuestionParams
from skyline.report.schema import ProfileReport
from skyline_tui import messages
from skyline_tui.conversation import Conversation
from skyline_tui.editor import edit
from skyline_tui.keys import IN_PALETTE, KEYS
from skyline_tui.messages import Post
from skyline_tui.screens.devices import Devices
from skyline_tui.screens.diff import Diff
from skyline_tui.screens.findings import Findings
from skyline_tui.screens.help import Help
from skyline_tui.screens.limits import Limits
from skyline_tui.screens.type_batch_size import TypeBatchSize
from skyline_tui.screens.verified import Verified
from skyline_tui.session import Session
from skyline_tui.theme import PHASE_COLOURS, SKYLINE
from skyline_tui.widgets.controls import Controls
from skyline_tui.widgets.headline import Headline
from skyline_tui.widgets.lines import Lines
from skyline_tui.widgets.panels import HEIGHTS, WIDTHS, Panels
from skyline_tui.widgets.phase_bar import PhaseBar
from skyline_tui.widgets.source import Source
from skyline_tui.widgets.status import Status
from skyline_tui.widgets.trouble import Trouble
from skyline_tui.widgets.whatifs import WhatIfs
from skyline_tui.widgets.workbench import Workbench


class SkylineApp(App[None]):
    """One script. ``connect`` makes the session, given where to post what happens by itself."""

    TITLE = "Skyline"
    CSS_PATH = "app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*KEYS]
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    def __init__(self, script: Path, connect: Callable[[Post], Session], *, live: bool = True) -> None:
        super().__init__()
        self.register_theme(SKYLINE)
        self.theme = SKYLINE.name
        self.script = script
        self.live = live
        self.profile: ProfileReport | None = None
        self.stale = False
        self._connect = connect
        self._lost = False
        self._later: QuestionParams | None = None
        self._verifying: QuestionParams | None = None
        self._talk = Conversation(connect(self.post_message), self.post_message)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Colours of the phases, for themes that have none."""
        return PHASE_COLOURS

    def compose(self) -> ComposeResult:
        """From the headline down to the keys."""
        yield Headline(self.script)
        yield PhaseBar()
        yield Workbench(self._talk.uri)
        yield Footer()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the keys do is in the palette too."""
        yield from super().get_system_commands(screen)
        for binding in KEYS:
            if binding.id in IN_PALETTE:
                yield SystemCommand(
                    binding.description,
                    binding.tooltip or binding.description,
                    partial(self.run_action, binding.action),
                )

    def on_resize(self, event: events.Resize) -> None:
        """Where it is narrow the keys move together, so that all of them are named."""
        self.query_one(Footer).compact = event.size.width < WIDTHS[1][0]

    def on_mount(self) -> None:
        """Connect, and measure."""
        self.query_one(Headline).show_mode(live=self.live)
        self.query_one(WhatIfs).focus()
        self._do("start", self._talk.start())

    async def on_unmount(self) -> None:
        """Leave no process behind."""
        await self._talk.stop()

    @property
    def _bench(self) -> Workbench:
        return self.query_one(Workbench)

    def _do(self, group: str, work: Coroutine[Any, Any, None]) -> None:
        self.run_worker(work, group=group, exclusive=True)

    def on_workbench_changed(self) -> None:
        """Have the question on the screen answered."""
        if self._bench.asks_nothing:
            self._talk.ask_nothing()
        else:
            self._talk.ask(self._bench.question)

    def on_workbench_meant(self, message: Workbench.Meant) -> None:
        """A bar was let go: in live mode the code follows."""
        if self.live:
            self._do("apply", self._talk.apply(message.question))

    # What comes from the server.

    def on_estimate_arrived(self, message: messages.EstimateArrived) -> None:
        """An answer."""
        self._bench.show_estimate(message.question, message.estimate)

    def on_question_failed(self, message: messages.QuestionFailed) -> None:
        """The server has no answer, and says why."""
        if message.question == self._bench.question:
            self.notify(message.reason, title="No prediction", severity="warning")

    def on_profile_moved(self, message: messages.ProfileMoved) -> None:
        """Fetch a new profile; mark the one shown where it went stale; say what went wrong."""
        change = message.change
        if change.uri != self._talk.uri:
            return
        self.stale = change.stale
        self.query_one(Headline).show(self.profile, stale=self.stale)
        self.screen.set_class(self.stale, "-stale")
        if change.error is None:
            self.query_one(Trouble).clear()
        else:
            self._trouble(change.error, change.errorLine)
        if change.profileId is not None:
            self._do("fetch", self._talk.fetch())

    def on_first_figures(self, message: messages.FirstFigures) -> None:
        """A first look at what is being measured."""
        measuring = message.measuring
        if measuring.uri == self._talk.uri and (self.profile is None or measuring.iterationMs is not None):
            self.query_one(Headline).show_first(measuring.text)

    def on_profile_arrived(self, message: messages.ProfileArrived) -> None:
        """Show it everywhere."""
        if message.profile == self.profile:
            self.query_one(WhatIfs).learn(message.whatifs)
            return
        self.profile = message.profile
        self.query_one(Headline).show(message.profile, stale=self.stale)
        self.query_one(PhaseBar).show(message.profile)
        self._bench.show(message.profile, message.whatifs)
        later, self._later = self._later, None
        if later is not None and later.batchSize == self._bench.question.batchSize and self.live:
            self._do("apply", self._talk.apply(later))

    def on_progressed(self, message: messages.Progressed) -> None:
        """How far a measurement is."""
        self._bench.progress(message.title, message.text, message.fraction)

    def on_progress_ended(self, message: messages.ProgressEnded) -> None:
        """A measurement is over."""
        self._bench.progress_ended()
        self.query_one(Headline).show_first("")
        if message.text == "cancelled":
            self.notify("Measuring was cancelled.")

    def on_best_found(self, message: messages.BestFound) -> None:
        """Put it on the screen as a question, which may be applied or dropped like any other."""
        best = message.best
        if best.estimate is None or not best.choices:
            text = best.reason or "Nothing that keeps to these limits is predicted to be worth a change."
            self.notify(text, title="Fastest combination")
            return
        self._bench.propose(best)
        self.notify(f"Fastest of {best.tried} simulated: {' '.join(best.choices)}")

    def on_what_ifs_wanted(self, message: WhatIfs.Wanted) -> None:
        """Ask for one what-if at another value."""
        self._do("value", self._talk.value(message.whatif))

    def on_value_arrived(self, message: messages.ValueArrived) -> None:
        """The answer to that."""
        self._bench.show_value(message.estimate)

    def on_verified(self, message: messages.Verified) -> None:
        """Show the prediction beside its measurement, which the ledger knows from now on."""
        self._verifying = None
        self.push_screen(Verified(message.report))
        self._do("fetch", self._talk.fetch())

    def on_not_verified(self, message: messages.NotVerified) -> None:
        """Say why; the person's own cancelling needs no reason."""
        asked, self._verifying = self._verifying, None
        if asked is None:
            self.notify("Verifying was cancelled.")
        else:
            self.notify(message.reason, title="Not verified", severity="warning")

    def on_devices_compared(self, message: messages.DevicesCompared) -> None:
        """Show the script on other GPUs."""
        self.push_screen(Devices(message.report, self.size.width))

    def on_previewed(self, message: messages.Previewed) -> None:
        """Show the diff."""
        self.push_screen(Diff(message.preview))

    def on_applied(self, message: messages.Applied) -> None:
        """The file follows; what was asked is now how the script is, once it is measured."""
        if not message.result.applied and self.stale and self.live and not message.question.whatifs:
            # The rewrite knows the code as it was measured: wait for the measurement that is on its way.
            self._later = message.question
            self.notify("The code is being measured; this change is written right after.")
            return
        if not message.result.applied:
            self._refused("Not rewritten", message.result)
            return
        if message.result.reason:
            self.notify(message.result.reason, title="Rewritten in part", severity="warning")
        self._bench.applied(message.question, message.expected)

    def on_reverted(self, message: messages.Reverted) -> None:
        """The file is as it was before the last apply, or the reason why not."""
        if message.result.applied:
            self._bench.drop()
            self.notify("The last change is taken back.")
        else:
            self._refused("Not undone", message.result)

    def _refused(self, title: str, result: ApplyResult) -> None:
        more = "\nd shows the code to write by hand." if any(one.snippet for one in result.refused) else ""
        self.notify(f"{result.reason or 'no reason was given'}{more}", title=title, severity="warning")

    def on_server_said(self, message: messages.ServerSaid) -> None:
        """What the trouble panel says already is not said twice."""
        if message.text != self.query_one(Trouble).message:
            self.notify(message.text, severity=message.severity.value)

    def on_server_lost(self, message: messages.ServerLost) -> None:
        """Keep the numbers, say what is known; measuring again starts another one."""
        self._lost = True
        self._bench.progress_ended()
        code = "" if message.exit_code is None else f" (exit code {message.exit_code})"
        self._trouble(f"The language server is not running{code}.\n{message.log}", None)

    def _trouble(self, text: str, line: int | None) -> None:
        self.query_one(Trouble).show(
            text, script=self.script, line=line, has_profile=self.profile is not None
        )

    # What the keys do.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enter belongs to the lists, except while keys have moved a bar."""
        if action == "settle":
            return bool(self.query(Controls)) and self.query_one(Controls).unsettled
        return True

    def on_key(self, event: events.Key) -> None:
        """A digit begins a batch size."""
        if event.character and event.character.isdecimal() and len(self.screen_stack) == 1:
            event.stop()
            self.action_type_batch_size(event.character)

    def action_step(self, change: int) -> None:
        """Move the batch size."""
        self.query_one(Controls).step(change)

    def action_settle(self) -> None:
        """Take what the keys chose."""
        self.query_one(Controls).settle()

    def action_type_batch_size(self, begun: str = "") -> None:
        """Ask for a number."""
        controls = self.query_one(Controls)
        if controls.current is None:
            self.notify(controls.why_not or "There is no profile yet.", severity="warning")
            return
        self.push_screen(TypeBatchSize(controls.current, begun), controls.typed)

    def action_apply(self) -> None:
        """Write the question into the code."""
        if self._is_asked():
            self._do("apply", self._talk.apply(self._bench.question))

    def action_undo(self) -> None:
        """Take the last apply back."""
        self._do("apply", self._talk.revert())

    def action_diff(self) -> None:
        """Show what apply would write."""
        if self._is_asked():
            self._do("preview", self._talk.preview(self._bench.question))

    def _is_asked(self) -> bool:
        if self._bench.asks_nothing:
            self.notify("Nothing is asked: drag a bar, or check a what-if first.")
        return not self._bench.asks_nothing

    def action_fastest(self) -> None:
        """Search for the fastest combination that keeps to limits, which are asked for first."""
        if self.profile is None:
            self.notify("There is no profile yet.", severity="warning")
            return
        memory = self.profile.memory
        usable = memory.usable_bytes or memory.capacity_bytes or memory.peak_bytes.value
        self.push_screen(Limits(self._talk.uri, float(usable)), self._search)

    def _search(self, wish: BestParams | None) -> None:
        if wish is not None:
            self._do("best", self._talk.best(wish))

    def action_verify(self) -> None:
        """Measure the question on the screen against its prediction."""
        if self.query_one(Status).busy or self._verifying is not None:
            self.notify("The script is being measured: verify when that is done.", severity="warning")
        elif self._is_asked():
            self._verifying = self._bench.question
            self._do("verify", self._talk.verify(self._verifying))

    def action_devices(self) -> None:
        """Predict the script on GPUs that need not be here."""
        if self.query_one(Status).busy or self._verifying is not None:
            self.notify("The script is being measured: ask when that is done.", severity="warning")
        else:
            self._do("devices", self._talk.devices(DevicesParams(self._talk.uri)))

    def action_findings(self) -> None:
        """Show the performance problems that the profile tells of."""
        if self.profile is None:
            self.notify("There is no profile yet.", severity="warning")
        else:
            self.push_screen(Findings(self.profile))

    def action_mode(self) -> None:
        """Between live and staged."""
        self.live = not self.live
        self.query_one(Headline).show_mode(live=self.live)

    async def action_profile(self) -> None:
        """Measure again; with another server where the last one is gone."""
        if self._lost:
            await self._talk.stop()
            self._talk, self._lost = Conversation(self._connect(self.post_message), self.post_message), False
            self.query_one(Trouble).clear()
            self._do("start", self._talk.start())
        else:
            self._do("profile", self._talk.profile())

    def action_cancel(self) -> None:
        """Stop measuring."""
        self._verifying = None
        self._do("cancel", self._talk.cancel())

    async def action_back(self) -> None:
        """Stop verifying, else drop the question, else stop measuring."""
        if self._verifying is not None:
            self.action_cancel()
        elif not self._bench.asks_nothing or self.query_one(Controls).held:
            self._bench.drop()
        elif self.query_one(Status).busy:
            self.action_cancel()

    def action_sort(self) -> None:
        """Sort the lines otherwise."""
        self.query_one(Lines).next_order()

    def action_panel(self, name: str) -> None:
        """Go to a panel."""
        self.query_one(Panels).select(name)

    def action_help(self) -> None:
        """Keys and signs."""
        self.push_screen(Help())

    def action_edit(self) -> None:
        """Open the line in the person's editor; the server notices the save."""
        problem = edit(self, *(self._bench.place or (str(self.script), 1)))
        if problem:
            self.notify(problem, title="The editor did not open", severity="warning")
        self.query_one(Source).reload()
