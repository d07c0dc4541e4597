"""Runs scripts and stores the results for all features. The newest request replaces older ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, Known, Progress
from skyline.capture.warm_pool import WarmPool
from skyline.errors import SkylineError
from skyline.predict.batch_curve import with_carried_curve
from skyline.report.schema import ProfileReport
from skyline.settings.pyproject import from_folder
from skyline.source.cells import is_notebook
from skyline.trace.profile import Profile
from skyline.trace.quieter_run import keep, shown
from skyline_lsp.capture_job import CaptureJob, Outcome
from skyline_lsp.launched import LaunchedRun
from skyline_lsp.options import ProfileOptions
from skyline_lsp.progress import ProgressBar
from skyline_lsp.state import Prepared, ScriptState, prepare

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer

logger = logging.getLogger(__name__)

_LENS_REFRESH_S = 1.0

Started = Literal["started", "running", "restarted"]


@dataclass(slots=True)
class _Run:
    """A job with its request, and the newer request to start after it, if any."""

    asked: LaunchedRun
    texts: dict[str, str | None]
    bar: ProgressBar
    next: LaunchedRun | None = None
    cancelled: bool = False
    refreshed_at: float = 0.0
    told: bool = False
    """True once a message has reported the first figures."""


@dataclass(slots=True)
class Profiler:
    """Starts, follows and ends the runs of all scripts. All methods run on the event loop."""

    server: SkylineServer
    loop: asyncio.AbstractEventLoop
    warm_pool: WarmPool = field(default_factory=WarmPool)
    _runs: dict[str, _Run] = field(default_factory=dict)
    _closed: bool = False

    def start(
        self, state: ScriptState, options: ProfileOptions | None = None, *, by_hand: bool = True
    ) -> Started:
        """Profile a script in its current state. ``by_hand`` also records the user's consent to profiling on save.

        Returns ``started``; ``running`` if an identical run is already in progress; ``restarted`` if a run with
        older text or options is stopped first. Raises NotTrusted if the workspace is not trusted.
        """
        self.server.require_trust()
        if by_hand:
            state.asked = True
            self.server.permission.give(state.path)
        state.options = options or state.options
        asked = self.run_for(state, by_hand=by_hand)
        run = self._runs.get(state.path)
        if run is None:
            self._launch(state, asked)
            return "started"
        newest = run.next or run.asked
        if (
            not run.cancelled
            and newest == asked
            and (run.next is not None or run.texts == self._texts(state))
        ):
            return "running"
        run.next, run.cancelled = asked, False
        if state.job is not None:
            state.job.cancel()
        return "restarted"

    def cancel(self, state: ScriptState) -> bool:
        """Stop the run of a script and kill its process. Returns False if there is no run."""
        run = self._runs.get(state.path)
        if run is None or state.job is None:
            return False
        run.next, run.cancelled = None, True
        state.job.cancel()
        return True

    def restore(self, state: ScriptState) -> None:
        """Show the latest saved profile, written by any front end, if it is newer than the current one."""

        def load() -> Prepared | None:
            try:
                profile = shown(Path(state.path))
                return prepare(profile) if profile else None
            except Exception:
                logger.warning("the saved profile of %s is not usable", state.path, exc_info=True)
                return None

        def loaded(task: asyncio.Future[Prepared | None]) -> None:
            prepared = None if task.cancelled() else task.result()
            known = state.prepared.report if state.prepared is not None else None
            # A run in progress will replace a known profile soon; without one, show the saved profile for now.
            if prepared is None or self._closed or (state.job is not None and known is not None):
                return
            if known is None or _is_newer(prepared.report, known):
                if state.job is None:
                    state.attempt = self._texts_of(prepared)
                state.accept(prepared)
                state.stale = state.is_stale(self.server.texts)
                self.server.profile_changed(state)

        self.loop.run_in_executor(None, load).add_done_callback(loaded)

    def close(self, timeout_s: float = 5.0) -> None:
        """Stop all runs and wait until their child processes have ended."""
        self._closed = True
        jobs = [state.job for state in self.server.scripts if state.job is not None]
        for job in jobs:
            job.cancel()
        for job in jobs:
            if not job.join(timeout_s):
                logger.error("profiling %s did not stop in time", job.asked.request.script)
        self.warm_pool.close()

    @property
    def starter(self) -> Starter:
        """Starts runs from a warm process with torch imported, or from a fresh one if the client disabled that."""
        return self.warm_pool.start if self.server.warm_start else start_fresh

    def run_for(self, state: ScriptState, *, by_hand: bool = True) -> LaunchedRun:
        """The request together with its launcher and machine. A notebook has no launcher."""
        settings, options = self.server.settings_at(state.path), state.options
        chosen = options.launcher if options.launcher is not None else settings.profile.launcher
        launcher = () if is_notebook(state.path) else chosen
        return LaunchedRun(self.request_for(state, by_hand=by_hand), launcher, self.host_of(state))

    def request_for(self, state: ScriptState, *, by_hand: bool = True) -> CaptureRequest:
        """Build the capture request from the settings and the script's latest options, without the launcher.

        The user does not supervise a run started by a save, so its network access follows the ``network`` setting.
        """
        settings, options = self.server.settings_at(state.path), state.options
        defaults, folder = CaptureRequest(Path(state.path)), self.server.folder_of(state.path)
        # Jupyter runs a notebook in its own folder.
        usual = Path(state.path).parent if is_notebook(state.path) else Path(folder)
        return CaptureRequest(
            script=Path(state.path),
            arguments=options.args if options.args is not None else settings.profile.args,
            interpreter=from_folder(settings.interpreter, Path(folder)) if settings.interpreter else None,
            working_directory=Path(options.cwd) if options.cwd else usual,
            device=options.device or settings.profile.device,
            gpu=options.gpu if options.gpu is not None else settings.gpu or "",
            variables=tuple({**settings.profile.env, **(options.env or {})}.items()),
            module=options.module or "",
            warmup=options.warmup,
            steps=options.steps or settings.profile.steps,
            batch_points=options.batchPoints if options.batchPoints is not None else defaults.batch_points,
            timeout_s=options.timeoutS or settings.profile.timeout_s,
            budget_s=settings.profile.budget_s,
            network="open" if by_hand else settings.network,
            source_overrides=tuple((text.path, text.text) for text in self.server.texts.unsaved()),
        )

    def host_of(self, state: ScriptState) -> str:
        """The machine that runs a script; empty: this machine. Predictions are always made on this machine."""
        settings, options = self.server.settings_at(state.path), state.options
        gpu = options.gpu if options.gpu is not None else settings.gpu
        return "" if gpu else settings.profile.host or ""

    def _texts(self, state: ScriptState) -> dict[str, str | None]:
        current = {path: self.server.texts.current(path) for path in state.files()}
        return {path: text.text if text is not None else None for path, text in current.items()}

    def _texts_of(self, prepared: Prepared) -> dict[str, str | None]:
        """The texts that were profiled, by path."""
        paths = {*prepared.sources, *(place.file for place in prepared.settings)}
        texts = {path: prepared.as_profiled(path, self.server.texts.current) for path in paths}
        return {path: text.text for path, text in texts.items() if text is not None}

    def _launch(self, state: ScriptState, asked: LaunchedRun) -> None:
        bar = ProgressBar(self.server, f"Profiling {asked.request.script.name}", lambda: self.cancel(state))
        run = self._runs[state.path] = _Run(asked, self._texts(state), bar)
        state.attempt = dict(run.texts)

        def save_and_prepare(profile: Profile) -> Prepared:
            try:
                profile = keep(profile)
            except SkylineError as error:
                self._call(partial(self.server.warn, str(error)))
            return prepare(profile)

        state.job = CaptureJob(
            asked,
            save_and_prepare,
            starter=self.starter,
            on_partial=lambda profile: self._call(
                partial(self._measured, state, run, self._early(state, profile))
            ),
            on_progress=lambda progress: self._call(lambda: self._progressed(state, run, progress)),
            on_done=lambda outcome: self._call(lambda: self._finished(state, run, outcome)),
        )
        state.job.start()
        self.server.saves.follow(state.files())
        self.server.refresh()

    def _early(self, state: ScriptState, profile: Profile) -> Prepared:
        """Prepare a profile without its batch-size curve: the view's bars keep that of a run of the same code."""
        for before in (state.prepared.profile if state.prepared else None, state.former):
            carried = with_carried_curve(profile, before)
            if carried is not profile:
                return prepare(carried)
        return prepare(profile)

    def _call(self, action: Callable[[], None]) -> None:
        """Run an action on the event loop from a worker thread. Does nothing once the loop is closed."""
        try:
            self.loop.call_soon_threadsafe(action)
        except RuntimeError:
            logger.debug("the server stopped before a run did")

    def _progressed(self, state: ScriptState, run: _Run, progress: Progress) -> None:
        if self._closed or state.job is None:
            return
        state.job.stage = progress
        run.bar.report(progress)
        now = self.loop.time()
        if progress.known is not None:
            run.refreshed_at = 0.0
            self._known(state, run, progress.known)
        if now - run.refreshed_at >= _LENS_REFRESH_S:
            run.refreshed_at = now
            self.server.refresher.lenses()

    def _known(self, state: ScriptState, run: _Run, known: Known) -> None:
        """Send the first results of a run, and watch the files that the run has read."""
        if state.job is None or run.next is not None:
            return
        state.job.known = known
        for path in known.files:
            text = self.server.texts.current(path)
            if text is not None:
                state.attempt.setdefault(path, text.text)
        self.server.saves.follow(state.files())
        self.server.measuring(state, known)

    def _measured(self, state: ScriptState, run: _Run, prepared: Prepared) -> None:
        """Show the measured script while other batch sizes, threads and number formats are still being measured."""
        if self._closed or state.job is None or run.next is not None:
            return
        state.job.known = None
        state.accept(prepared)
        state.stale = state.is_stale(self.server.texts)
        if run.asked.request.batch_points and not run.told:
            run.told = True
            run.bar.milestone(f"{prepared.headline}; other batch sizes follow")
        self.server.profile_changed(state)

    def _finished(self, state: ScriptState, run: _Run, outcome: Outcome[Prepared]) -> None:
        state.job = None
        del self._runs[state.path]
        if self._closed:
            return
        if run.next is not None:
            run.bar.end("stopped for a newer version")
            self._launch(state, run.next)
        elif outcome.result is not None:
            state.attempt = self._texts_of(outcome.result)
            state.accept(outcome.result)
            state.stale = state.is_stale(self.server.texts)
            run.bar.end(outcome.result.headline, more=outcome.result.verdict_words)
            self.server.profile_changed(state)
        elif outcome.error is not None:
            told = self._failed(state, outcome.error)
            run.bar.end(f"failed: {outcome.error.message}", told=told)
        else:
            run.bar.end("cancelled")
            self.server.refresh()

    def _failed(self, state: ScriptState, error: SkylineError) -> bool:
        """Record a failure and show it, unless the previous run failed with the same message.

        Returns True if a message was shown.
        """
        repeated = state.error is not None and str(state.error) == str(error)
        state.error = error
        state.stale = state.prepared is not None
        for path in (error.file, *error.files):
            text = self.server.texts.current(path) if path else None
            if text is not None:
                state.attempt.setdefault(path, text.text)
        self.server.profile_changed(state)
        if not repeated:
            self.server.warn(str(error))
        return not repeated


def _is_newer(one: ProfileReport, other: ProfileReport) -> bool:
    # Timestamps have a resolution of one second. On a tie, ``one`` counts as newer.
    return one.id != other.id and datetime.fromisoformat(one.created) >= datetime.fromisoformat(other.created)
