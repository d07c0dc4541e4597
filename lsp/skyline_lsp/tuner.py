"""Runs searches for the fastest combination on a worker thread, one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skyline.analysis.best import Constraints
from skyline.capture.request import Progress
from skyline.errors import UsageError
from skyline.report import protocol
from skyline.report.protocol import TuneParams
from skyline.report.tune import TuneProgress, TuneReport, tune_progress, tune_report
from skyline.trace import store
from skyline.tune.paired import PairedTrials, first_guess_s
from skyline.tune.search import Budget, leader, tune
from skyline.tune.space import Space, question_of
from skyline.tune.trials import KeptTrials, TuneTrial, fastest_measured
from skyline.verification.change import change
from skyline.verification.verify import check_measurable
from skyline.whatif.base import Semantics
from skyline_lsp import wire
from skyline_lsp.background_task import BackgroundTask, Report
from skyline_lsp.on_host import check_measured_here
from skyline_lsp.state import ScriptState
from skyline_lsp.verifier import as_profiled

logger = logging.getLogger(__name__)

_TELL_EVERY_S = 1.0


@dataclass(slots=True)
class Tuner:
    """Starts and ends searches."""

    task: BackgroundTask

    async def tune(self, state: ScriptState, asked: TuneParams) -> TuneReport:
        """Search within the budget. An interrupted search returns its trials.

        Raises SkylineError if the unchanged script fails. Raises UsageError if another search is running, because the
        two would disturb each other's trials.
        """
        self.task.require_free(state, "is being tuned", "Tune it")
        prepared = state.profiled()
        if not asked.budgetSeconds > 0:
            raise UsageError("The budget must be above 0 s", hint="A usual budget is 300 s.")
        check_measurable(prepared.profile)
        check_measured_here(prepared.profile, "a search by trials")
        server, analysis = self.task.server, prepared.analysis
        launch = server.profiler.run_for(state)
        starter = server.profiler.starter
        saved = store.saved_as(Path(state.path), prepared.profile.id)
        kept = KeptTrials.of(prepared.profile.id, saved, resume=asked.resume)
        loop = asyncio.get_running_loop()

        def work(report: Report, cancel: threading.Event) -> TuneReport:
            began_s = told_s = time.monotonic()
            request = as_profiled(launch.launched(), prepared)
            space = Space(
                analysis, Constraints(asked.maxMemoryBytes, Semantics(asked.allow), rewritable=True)
            )

            def tell(doing: str) -> None:
                nonlocal told_s
                told_s = time.monotonic()
                trials = kept.state.trials
                news = tune_progress(
                    state.uri,
                    trials,
                    leader(space, trials),
                    running=True,
                    doing=doing,
                    budget_s=asked.budgetSeconds,
                    spent_s=told_s - began_s,
                )
                with contextlib.suppress(RuntimeError):  # the server has stopped
                    loop.call_soon_threadsafe(self._tell, news)

            def progress(said: Progress) -> None:
                report(said)
                if time.monotonic() - told_s >= _TELL_EVERY_S:
                    tell(f"{said.stage}: {said.message}")

            def on_trial(trial: TuneTrial) -> None:
                if problem := kept.add(trial):
                    logger.warning("%s", problem)
                tell(f"trial {len(kept.state.trials)} finished")

            tell("choosing trials")
            found = tune(
                space,
                PairedTrials(analysis, request, cancel=cancel, starter=starter),
                Budget(asked.budgetSeconds, first_guess_s(prepared.profile), asked.maxMemoryBytes),
                earlier=kept.state.trials,
                on_trial=on_trial,
                progress=progress,
            )
            best = found.best if found.worth else None
            return tune_report(
                state.path,
                asked.allow,
                asked.budgetSeconds,
                found,
                left_out=space.left_out,
                diff=""
                if best is None
                else change(analysis, question_of(best.parts), request.arguments).diff,
            )

        try:
            return await self.task.run(state.path, f"Tuning {Path(state.path).name}", work, _outcome)
        finally:
            trials = kept.state.trials
            self._tell(tune_progress(state.uri, trials, fastest_measured(trials)))

    def _tell(self, news: TuneProgress) -> None:
        self.task.server.protocol.notify(protocol.TUNING, wire.send(news))


def tuned(state: ScriptState) -> TuneProgress | None:
    """The trials of the last search over the current profile, of any program; None if there are none."""
    if state.prepared is None:
        return None
    profile_id = state.prepared.profile.id
    saved = store.saved_as(Path(state.path), profile_id)
    kept = KeptTrials.of(profile_id, saved, resume=True).state.trials
    return tune_progress(state.uri, kept, fastest_measured(kept)) if kept else None


def _outcome(report: TuneReport) -> str:
    if report.outcome == "faster":
        return f"faster: {' '.join(report.best.changes if report.best else ())}"
    return f"{_count(report.trials)}, {report.ended}"


def _count(trials: Sequence[object]) -> str:
    return f"{len(trials)} trial{'s' * (len(trials) != 1)}"
