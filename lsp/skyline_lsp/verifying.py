"""Verifications on their way: a worker thread each, one at a time, with a bar that has a cancel button."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, Progress
from skyline.capture.secrecy import HIDDEN
from skyline.errors import SkylineError, UsageError
from skyline.report.schema import VerifyReport, WhatIfReport
from skyline.report.verification import verify_report
from skyline.verification.measure import Effort
from skyline.verification.verify import verify
from skyline.whatif.question import Question
from skyline_lsp.progress import ProgressBar
from skyline_lsp.state import Prepared, ScriptState, with_records

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer

logger = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 5.0


@dataclass(slots=True)
class Verifier:
    """Starts and ends verifications. Everything here but the measuring itself happens on the event loop."""

    server: SkylineServer
    _path: str = ""
    _cancel: threading.Event = field(default_factory=threading.Event)
    _idle: threading.Event = field(default_factory=threading.Event)

    async def verify(self, state: ScriptState, asked: Question, effort: Effort) -> VerifyReport:
        """The prediction against its measurement; raises SkylineError, Cancelled among them.

        A second one while one is under way is refused: the two would measure each other.
        """
        if self._path:
            raise UsageError(
                f"{Path(self._path).name} is being verified", hint="Wait for its end, or cancel it."
            )
        if state.job is not None:
            raise UsageError("The script is being profiled", hint="Verify it when that is done.")
        if state.prepared is None:
            raise SkylineError("There is no profile yet", hint="Run skyline.profile first.")
        loop, cancel = asyncio.get_running_loop(), threading.Event()
        self._path, self._cancel, self._idle = state.path, cancel, threading.Event()
        idle = self._idle
        bar = ProgressBar(self.server, f"Verifying {Path(state.path).name}", cancel.set)
        prepared, request = state.prepared, self._request(state, state.prepared)
        starter: Starter = start_fresh
        if self.server.settings.profile.warm_start:
            starter = self.server.profiler.nursery.start

        def report(progress: Progress) -> None:
            try:
                loop.call_soon_threadsafe(bar.report, progress)
            except RuntimeError:
                logger.debug("the server stopped before a verification did")

        def work() -> tuple[VerifyReport, WhatIfReport]:
            try:
                found = verify(
                    prepared.analysis,
                    asked,
                    request=request,
                    effort=effort,
                    progress=report,
                    cancel=cancel,
                    starter=starter,
                )
                return verify_report(prepared.analysis, found), with_records(
                    prepared.whatifs, prepared.analysis
                )
            finally:
                idle.set()

        try:
            # Shielded: when the client takes its request back, the work is told to stop, and stops by itself.
            working = loop.run_in_executor(None, work)
            working.add_done_callback(self._ended)
            result, whatifs = await asyncio.shield(working)
        except BaseException as error:
            cancel.set()
            bar.end(f"failed: {error.message}" if isinstance(error, SkylineError) else "cancelled")
            raise
        else:
            if state.prepared is prepared:
                state.prepared = replace(prepared, whatifs=whatifs)
            bar.end(
                f"measured {result.measured.ratio.value:.3f} of the time" if result.valid else "discarded"
            )
            return result

    def _ended(self, working: asyncio.Future[tuple[VerifyReport, WhatIfReport]]) -> None:
        self._path = ""
        # Whoever asked may be gone: then nobody else looks at what went wrong.
        if not working.cancelled():
            working.exception()

    def cancel(self, path: str) -> bool:
        """Stop the verification of a script; False where none is under way."""
        if not path or path != self._path:
            return False
        self._cancel.set()
        return True

    def close(self) -> None:
        """Stop what is under way and wait until its processes are gone."""
        if self._path:
            self._cancel.set()
            if not self._idle.wait(_CLOSE_TIMEOUT_S):
                logger.error("verifying %s did not stop in time", self._path)

    def _request(self, state: ScriptState, prepared: Prepared) -> CaptureRequest:
        """As the profile was made, with the settings of now for what it does not tell."""
        profile, request = prepared.profile, self.server.profiler.request_for(state)
        known = not any(HIDDEN in argument for argument in profile.arguments)
        return replace(
            request,
            arguments=profile.arguments if known else request.arguments,
            interpreter=profile.interpreter or request.interpreter,
            working_directory=Path(profile.working_directory),
            module=profile.module,
            gpu="",
        )
