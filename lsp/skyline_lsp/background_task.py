"""Runs one long task at a time on a worker thread, with a progress bar and a cancel button."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from skyline.capture.request import Progress
from skyline.errors import SkylineError, UsageError
from skyline_lsp.progress import ProgressBar

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer
    from skyline_lsp.state import ScriptState

logger = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 5.0
_Result = TypeVar("_Result")
Report = Callable[[Progress], None]


@dataclass(slots=True)
class BackgroundTask:
    """Starts and ends the task. Everything but the task itself runs on the event loop.

    ``path`` is the script of the current task, empty if there is none.
    """

    server: SkylineServer
    path: str = ""
    _cancel: threading.Event = field(default_factory=threading.Event)
    _idle: threading.Event = field(default_factory=threading.Event)

    def require_free(self, state: ScriptState, doing: str, retry: str) -> None:
        """Raise UsageError if this task or profiling is running, and NotTrusted if the workspace is not trusted."""
        self.server.require_trust()
        if self.path:
            hint = "Wait until it has finished, or cancel it."
            raise UsageError(f"{Path(self.path).name} {doing}", hint=hint)
        if state.job is not None:
            raise UsageError("The script is being profiled", hint=f"{retry} when profiling has finished.")

    async def run(
        self,
        path: str,
        title: str,
        work: Callable[[Report, threading.Event], _Result],
        done: Callable[[_Result], str],
    ) -> _Result:
        """Run ``work`` and return its result. ``done`` receives the result first and returns the bar's final text.

        ``work`` receives a callback for its progress and an event that requests it to stop. Its exceptions are
        passed on.
        """
        loop, cancel = asyncio.get_running_loop(), threading.Event()
        self.path, self._cancel, self._idle = path, cancel, threading.Event()
        idle = self._idle
        bar = ProgressBar(self.server, title, cancel.set)

        def report(progress: Progress) -> None:
            try:
                loop.call_soon_threadsafe(bar.report, progress)
            except RuntimeError:
                logger.debug("the server stopped before %r did", title)

        def working() -> _Result:
            try:
                return work(report, cancel)
            finally:
                idle.set()

        try:
            # Shielded: if the client cancels its request, the event asks the work to stop, which takes a moment.
            future = loop.run_in_executor(None, working)
            future.add_done_callback(self._ended)
            result = await asyncio.shield(future)
        except BaseException as error:
            cancel.set()
            bar.end(f"failed: {error.message}" if isinstance(error, SkylineError) else "cancelled")
            raise
        bar.end(done(result))
        return result

    def _ended(self, future: asyncio.Future[Any]) -> None:
        self.path = ""
        # Retrieve the exception: if the caller was cancelled, nothing else does.
        if not future.cancelled():
            future.exception()

    def cancel(self, path: str) -> bool:
        """Stop the task of a script. Returns False if there is none."""
        if not path or path != self.path:
            return False
        self._cancel.set()
        return True

    def close(self) -> None:
        """Stop the current task and wait until its processes have ended."""
        if self.path:
            self._cancel.set()
            if not self._idle.wait(_CLOSE_TIMEOUT_S):
                logger.error("the task for %s did not stop in time", self.path)
