"""One long piece of work at a time: on a worker thread, with a bar that has a cancel button."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from skyline.capture.request import Progress
from skyline.errors import SkylineError
from skyline_lsp.progress import ProgressBar

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer

logger = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 5.0
_Result = TypeVar("_Result")
Report = Callable[[Progress], None]


@dataclass(slots=True)
class Errand:
    """Starts and ends the work. Everything here but the work itself happens on the event loop.

    ``path`` is the script that it is under way for, empty where nothing is.
    """

    server: SkylineServer
    path: str = ""
    _cancel: threading.Event = field(default_factory=threading.Event)
    _idle: threading.Event = field(default_factory=threading.Event)

    async def run(
        self,
        path: str,
        title: str,
        work: Callable[[Report, threading.Event], _Result],
        done: Callable[[_Result], str],
    ) -> _Result:
        """What the work gives; ``done`` is told of it first, and says how the bar ends.

        The work reports how far it is, and stops when its event is set. Raises what it raises.
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
            # Shielded: when the client takes its request back, the work is told to stop, and stops by itself.
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
        # Whoever asked may be gone: then nobody else looks at what went wrong.
        if not future.cancelled():
            future.exception()

    def cancel(self, path: str) -> bool:
        """Stop the work for a script; False where none is under way."""
        if not path or path != self.path:
            return False
        self._cancel.set()
        return True

    def close(self) -> None:
        """Stop what is under way and wait until its processes are gone."""
        if self.path:
            self._cancel.set()
            if not self._idle.wait(_CLOSE_TIMEOUT_S):
                logger.error("the work for %s did not stop in time", self.path)
