"""Distribution of the server's messages to the widgets."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from textual.message import Message

from skyline.report.basis import speedup_words
from skyline.report.protocol import (
    ApplyResult,
    CommandResult,
    MemoryAtParams,
    PreviewResult,
    QuestionParams,
    WatchedParams,
)
from skyline.report.schema import BestReport, ProfileReport
from skyline_tui import messages
from skyline_tui.clean_screen import CleanApp
from skyline_tui.conversation import Conversation
from skyline_tui.live_consent import LiveConsent
from skyline_tui.messages import Post, Severity
from skyline_tui.screens.diff import Diff
from skyline_tui.screens.first_write import Answer, FirstWrite
from skyline_tui.screens.sheet import VerifiedSheet
from skyline_tui.session import ServerSession
from skyline_tui.summary import written
from skyline_tui.views.diff import DiffView
from skyline_tui.views.lines import LinesView
from skyline_tui.views.log import LogView
from skyline_tui.views.memory import MemoryView
from skyline_tui.views.plan import PlanView
from skyline_tui.views.timeline import TimelineView
from skyline_tui.views.tune import TuneView
from skyline_tui.views.view import View
from skyline_tui.views.watch import WatchView
from skyline_tui.widgets.controls import Controls
from skyline_tui.widgets.headline import Headline
from skyline_tui.widgets.phase_bar import PhaseBar
from skyline_tui.widgets.source import Source
from skyline_tui.widgets.status import Status
from skyline_tui.widgets.trouble import Trouble
from skyline_tui.widgets.verdict import VerdictLines
from skyline_tui.widgets.view_tabs import ViewTabs
from skyline_tui.widgets.whatifs import WhatIfs
from skyline_tui.widgets.workbench import Workbench
from skyline_tui.workspace_edit import RewrittenFile

P = ParamSpec("P")
T = TypeVar("T")


class NewsApp(CleanApp[None]):
    """Passes messages to the pages; in live mode the code follows the question on the screen."""

    def __init__(
        self,
        script: Path,
        connect: Callable[[Post], ServerSession],
        *,
        live: bool,
        consent: LiveConsent | None = None,
    ) -> None:
        """``consent`` None: live mode writes without asking."""
        super().__init__()
        self._consent = consent
        self.script = script
        self.profile: ProfileReport | None = None
        self.stale = False
        self._connect = connect
        self._lost = False
        self._later: QuestionParams | None = None
        self._verifying: QuestionParams | None = None
        self._unmeasured: QuestionParams | None = None
        """The part of the question that is in the code but not yet measured."""
        self._arrivals = 0
        self._last_written: tuple[RewrittenFile, ...] = ()
        self._talk = Conversation(connect(self.post_message), self.post_message)
        self.live = live and self._talk.runs

    @property
    def _bench(self) -> Workbench:
        return self.query_one(Workbench)

    @property
    def _log_view(self) -> LogView:
        return self.query_one(LogView)

    def _do(
        self, group: str, work: Callable[P, Coroutine[Any, Any, None]], *given: P.args, **named: P.kwargs
    ) -> None:
        """Start work in the background. Cancels running or scheduled work of the same group."""
        self.run_worker(partial(work, *given, **named), group=group, exclusive=True)

    def _fetch(
        self,
        group: str,
        view: str,
        shown: Callable[[T], object],
        request: Callable[P, Awaitable[T]],
        *given: P.args,
        **named: P.kwargs,
    ) -> None:
        """Ask the server in the background. ``shown`` gets the answer; ``view``, or a notification, shows a failure."""

        async def asked() -> None:
            await self._talk.show(view, shown, request, *given, **named)

        self._do(group, asked)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: Literal["information", "warning", "error"] = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a notification and add it to the Log page. It is plain text, because it may contain code."""
        for log in self.query(LogView):
            log.write(
                severity if severity != "information" else "note", f"{title}: {message}" if title else message
            )
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    # The question on the screen.

    def on_workbench_changed(self) -> None:
        question = self._bench.question
        self.query_one(TimelineView).ask(question)
        if self._bench.asks_nothing:
            self._talk.ask_nothing()
        else:
            self._talk.ask(question)

    def on_workbench_meant(self, message: Workbench.Meant) -> None:
        """The user released a bar or toggled a what-if: in live mode the code follows."""
        question = message.question
        if self.query_one(Controls).read_only:
            # The bars only predict: write only the what-ifs of the question into the code.
            question = replace(question, batchSize=None)
            if not question.whatifs and self._unmeasured is None:
                return
        if self.live and question != self._unmeasured:
            self._once_agreed(lambda: self._write(question))

    def _once_agreed(self, work: Callable[[], None]) -> None:
        """Do the work of live mode once the user has agreed to live mode."""
        consent = self._consent
        if consent is None or consent.given:
            work()
            return

        def answered(answer: Answer | None) -> None:
            if answer == "live":
                consent.give()
                work()
            elif answer == "staged":
                self.action_mode()

        self.push_screen(FirstWrite(self.script.name), answered)

    def action_mode(self) -> None:
        """Switch between live and staged."""
        self.live = not self.live
        self.query_one(Headline).show_mode(live=self.live, runs=self._talk.runs)
        how = (
            "releasing a bar or toggling a what-if rewrites the file"
            if self.live
            else "only the key a rewrites the file"
        )
        self.notify(f"{'Live' if self.live else 'Staged'}: {how}.")

    def _write(self, question: QuestionParams) -> None:
        """Write the question into the code. It replaces the changes that are not yet measured."""
        self._do(
            "apply", self._talk.write, question, instead=self._unmeasured is not None, seen=self._arrivals
        )

    # Messages of the server.

    async def _dispatch_message(self, message: Message) -> None:
        """Drop messages that arrive while the application closes, because their widgets are being removed."""
        if self._running or not isinstance(message, messages.News):
            await super()._dispatch_message(message)

    def on_estimate_arrived(self, message: messages.EstimateArrived) -> None:
        self._bench.show_estimate(message.question, message.estimate)

    def on_curve_arrived(self, message: messages.CurveArrived) -> None:
        self._bench.show_curve(message.whatifs, message.points)

    def on_question_failed(self, message: messages.QuestionFailed) -> None:
        if message.question == self._bench.question:
            self.notify(message.reason, title="No prediction", severity="warning")

    def on_profile_moved(self, message: messages.ProfileMoved) -> None:
        """Fetch a new profile, mark a stale one, or show an error."""
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
            self._do("fetch", self._talk.fetch)

    def on_first_figures(self, message: messages.FirstFigures) -> None:
        """Show first results of the current measurement."""
        measuring = message.measuring
        if measuring.uri == self._talk.uri and (self.profile is None or measuring.iterationMs is not None):
            self.query_one(Headline).show_first(measuring.text)

    def on_profile_arrived(self, message: messages.ProfileArrived) -> None:
        if message.profile == self.profile:
            self.query_one(WhatIfs).learn(message.whatifs)
            return
        self.profile = message.profile
        self._arrivals += 1
        if self._unmeasured is not None and not self.stale:
            self._bench.measured(self._unmeasured)
            self._unmeasured = None
        self.query_one(Headline).show(message.profile, stale=self.stale)
        verdict = message.whatifs.verdict if message.whatifs is not None else None
        self.query_one(VerdictLines).show(verdict, message.profile.wall_time)
        self.query_one(PhaseBar).show(message.profile)
        self._bench.show(message.profile, message.whatifs)
        for view in self.query(View):
            view.show(message.profile)
        found = len(message.profile.findings)
        self.query_one(ViewTabs).mark("view-findings", f" {found}" if found else "")
        self._log_view.write(
            "profile", f"{message.profile.id}: {message.profile.iteration_ms.value:.4g} ms per iteration"
        )
        for note in message.profile.notes:
            self._log_view.write("note", note)
        later, self._later = self._later, None
        if later is not None and later == self._bench.question and self.live:
            self._write(later)
        self.call_after_refresh(freeze_garbage_collector)

    def on_progressed(self, message: messages.Progressed) -> None:
        self._log_view.write("progress", f"{message.title}: {message.text}".partition(" of ")[0])
        self._bench.progress(message.title, message.text, message.fraction)

    def on_progress_ended(self, message: messages.ProgressEnded) -> None:
        self._log_view.write("progress", message.text)
        self._bench.progress_ended()
        self.query_one(Headline).show_first("")
        if message.text == "cancelled":
            self.notify("Measuring was cancelled.")

    def on_answered(self, message: messages.Answered) -> None:
        message.shown(message.answer)

    def _propose(self, best: BestReport) -> None:
        """Show the combination as a question, which can be applied or dropped like any other question."""
        if best.estimate is None or not best.choices:
            text = best.reason or "No change within these limits has a predicted gain."
            self.notify(text, title="Fastest combination")
            return
        self._bench.propose(best)
        speed = speedup_words(best.estimate.speedup, best.estimate.speedup_range)
        beyond = "\n! extrapolated: outside the measured range" if best.estimate.extrapolated else ""
        self.notify(f"Fastest of {best.tried} simulated: {' '.join(best.choices)}, {speed}{beyond}")

    def on_what_ifs_value_wanted(self, message: WhatIfs.ValueWanted) -> None:
        asked = QuestionParams(self._talk.uri, None, (message.whatif,))
        self._fetch("value", "", self._bench.show_value, self._talk.session.simulate, asked)

    def on_verified(self, message: messages.Verified) -> None:
        """Show the prediction with its measurement, and refresh the track records from the ledger."""
        self._verifying = None
        self.push_screen(VerifiedSheet(message.report, self.size.width))
        self._do("fetch", self._talk.fetch)

    def on_not_verified(self, message: messages.NotVerified) -> None:
        """Show the reason, except after a cancellation by the user."""
        asked, self._verifying = self._verifying, None
        if asked is None:
            self.notify("Verifying was cancelled.")
        else:
            self.notify(message.reason, title="Not verified", severity="warning")

    def on_plan_view_choices_wanted(self) -> None:
        self._fetch("plan", "plan", self.query_one(PlanView).offer, self._talk.session.plan_choices)

    def on_plan_view_plan_wanted(self, message: PlanView.PlanWanted) -> None:
        arrived = partial(self.query_one(PlanView).arrived, message.params)
        self._talk.show_newest("plan", arrived, self._talk.session.plan, message.params)

    def on_plan_view_timeline_wanted(self, message: PlanView.TimelineWanted) -> None:
        opened = partial(self.query_one(PlanView).opened, message.params)
        self._fetch("plan-timeline", "plan", opened, self._talk.session.plan_timeline, message.params)

    def on_plan_view_export_wanted(self, message: PlanView.ExportWanted) -> None:

        def written(result: CommandResult) -> None:
            self.notify(f"{result.path} is written; open it in ui.perfetto.dev.")

        self._fetch("plan-export", "", written, self._talk.session.plan_export, message.params)

    def on_watch_view_run_wanted(self, message: WatchView.RunWanted) -> None:
        asked = WatchedParams(self._talk.uri, message.name)
        self._fetch("watched", "watch", self.query_one(WatchView).arrived, self._talk.session.watched, asked)

    def on_tune_view_trials_wanted(self) -> None:
        self._fetch("tuned", "tune", self.query_one(TuneView).resumable, self._talk.session.tuned)

    def on_tuning_moved(self, message: messages.TuningMoved) -> None:
        if message.news.uri == self._talk.uri:
            self.query_one(TuneView).moved(message.news)

    def on_timeline_view_window_wanted(self, message: TimelineView.WindowWanted) -> None:
        arrived = partial(self.query_one(TimelineView).arrived, message.params)
        self._fetch("timeline", "timeline", arrived, self._talk.session.timeline, message.params)

    def on_memory_view_moment_wanted(self, message: MemoryView.MomentWanted) -> None:
        asked = MemoryAtParams(self._talk.uri, message.time_ms)
        arrived = self.query_one(MemoryView).arrived
        self._talk.show_newest("memory", arrived, self._talk.session.memory_at, asked)

    def on_diff_view_history_wanted(self) -> None:
        self._fetch("history", "diff", self.query_one(DiffView).listed, self._talk.session.history)

    def on_diff_view_commits_wanted(self) -> None:
        self._fetch("commits", "diff", self.query_one(DiffView).traced_back, self._talk.session.commits)

    def on_diff_view_compare_wanted(self, message: DiffView.CompareWanted) -> None:
        arrived = partial(self.query_one(DiffView).arrived, message.params)
        self._fetch("compare", "diff", arrived, self._talk.session.compare, message.params)

    def on_picture_failed(self, message: messages.PictureFailed) -> None:
        self.query_one(f"#view-{message.view}", View).fail(message.reason)

    def _preview(self, preview: PreviewResult) -> None:
        """Show the edits that apply would make."""
        self.query_one(DiffView).propose(preview)
        self.push_screen(Diff(preview))

    def on_files_written(self, message: messages.FilesWritten) -> None:
        self._last_written = message.files
        self.query_one(DiffView).wrote(message.files)
        for file in message.files[:1]:
            self.query_one("#source", Source).flash(str(file.path), file.lines)
            self.query_one(LinesView).wrote(str(file.path), file.lines)

    def on_applied(self, message: messages.Applied) -> None:
        """Show the new code. The question becomes the state of the script once it is measured."""
        self._unmeasured = None
        if not message.result.applied and self.stale and self.live:
            # The rewrite needs the profile of the current code: wait for the running measurement.
            self._later = message.question
            self.notify("The code is being measured; Skyline writes this change afterwards.")
            return
        if not message.result.applied:
            self._refused("Not rewritten", message.result)
            return
        if message.result.reason:
            self.notify(message.result.reason, title="Rewritten in part", severity="warning")
        self._bench.applied(message.question, message.expected)
        places = ", ".join(file.place for file in self._last_written if file.place)
        self.notify(f"{places or 'The code'} rewritten.  u undoes, d shows the change", timeout=6)
        if message.seen == self._arrivals:
            self._unmeasured = message.question
            self.query_one(Status).sum_up(written(message.question, message.expected))
        else:
            self._bench.measured(message.question)

    def on_reverted(self, message: messages.Reverted) -> None:
        self._unmeasured = None
        if message.result.applied:
            self._bench.drop()
            self.notify(message.result.reason or "The last change is undone.")
        else:
            self._refused("Not undone", message.result)

    def on_what_ifs_switched_off(self, message: WhatIfs.SwitchedOff) -> None:
        """In live mode, remove the what-if from the code."""
        if self.live:
            self._once_agreed(lambda: self._do("apply", self._talk.remove, message.whatif))
        else:
            self.notify(
                f"Staged: {message.whatif} stays in the code. Press m for live mode, then Space to remove it."
            )

    def on_taken_out(self, message: messages.TakenOut) -> None:
        if message.result.applied:
            self.notify(
                f"{message.whatif} is removed from the code.  u undoes, d shows the change", timeout=6
            )
        else:
            self._refused(f"{message.whatif} not removed", message.result)

    def _refused(self, title: str, result: ApplyResult) -> None:
        more = "\nd shows the code to write by hand." if any(one.snippet for one in result.refused) else ""
        self.notify(f"{result.reason or 'no reason was given'}{more}", title=title, severity="warning")

    def on_logged(self, message: messages.Logged) -> None:
        self._log_view.write("server", message.text)

    def on_server_said(self, message: messages.ServerSaid) -> None:
        """Show a message, unless the error panel already shows it."""
        if message.text != self.query_one(Trouble).message:
            self.notify(message.text, severity=Severity(message.severity).value)

    def on_server_lost(self, message: messages.ServerLost) -> None:
        """Keep the numbers and show the error. The next measurement starts a new server."""
        self._lost = True
        self._bench.progress_ended()
        code = "" if message.exit_code is None else f" (exit code {message.exit_code})"
        self._trouble(f"The language server is not running{code}.\n{message.log}", None)

    def _trouble(self, text: str, line: int | None) -> None:
        self._log_view.write("error", text)
        self.query_one(Trouble).show(
            text, script=self.script, line=line, has_profile=self.profile is not None
        )


def freeze_garbage_collector() -> None:
    """Collect garbage now. Later collections skip every object that survives this one."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
