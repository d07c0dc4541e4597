"""A script traced for several GPUs: on a worker thread, one at a time, with a bar that has a cancel button."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import Progress
from skyline.errors import SkylineError, UsageError
from skyline.predict.energy import own_grid_g_per_kwh
from skyline.predict.gpus import gpus_named
from skyline.predict.outlook import outlooks
from skyline.predict.prices import check_provider
from skyline.report.devices import DevicesReport, devices_report
from skyline.report.protocol import DevicesParams
from skyline_lsp.progress import ProgressBar
from skyline_lsp.state import ScriptState

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer

logger = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 5.0


@dataclass(slots=True)
class Comparer:
    """Starts and ends comparisons. Everything here but the tracing itself happens on the event loop."""

    server: SkylineServer
    _path: str = ""
    _cancel: threading.Event = field(default_factory=threading.Event)
    _idle: threading.Event = field(default_factory=threading.Event)

    async def compare(self, state: ScriptState, asked: DevicesParams) -> DevicesReport:
        """The script on each GPU; raises SkylineError, Cancelled among them.

        Refused beside another comparison, and while the script is measured: it would disturb that.
        """
        if self._path:
            raise UsageError(
                f"{Path(self._path).name} is being compared", hint="Wait for its end, or cancel it."
            )
        if state.job is not None:
            raise UsageError("The script is being profiled", hint="Compare GPUs when that is done.")
        chosen = gpus_named(asked.gpus)
        if asked.provider:
            check_provider(asked.provider)
        grid = asked.gridGPerKwh if asked.gridGPerKwh is not None else own_grid_g_per_kwh()
        request = replace(self.server.profiler.request_for(state), gpu=chosen[0].name, device="auto")
        starter: Starter = start_fresh
        if self.server.settings.profile.warm_start:
            starter = self.server.profiler.nursery.start
        loop, cancel = asyncio.get_running_loop(), threading.Event()
        self._path, self._cancel, self._idle = state.path, cancel, threading.Event()
        idle = self._idle
        bar = ProgressBar(self.server, f"Comparing GPUs for {Path(state.path).name}", cancel.set)

        def report(progress: Progress) -> None:
            try:
                loop.call_soon_threadsafe(bar.report, progress)
            except RuntimeError:
                logger.debug("the server stopped before a comparison did")

        def work() -> DevicesReport:
            try:
                found = outlooks(request, chosen, progress=report, cancel=cancel, starter=starter)
                return devices_report(found, provider=asked.provider, grid_g_per_kwh=grid)
            finally:
                idle.set()

        try:
            # Shielded: when the client takes its request back, the work is told to stop, and stops by itself.
            working = loop.run_in_executor(None, work)
            working.add_done_callback(self._ended)
            result = await asyncio.shield(working)
        except BaseException as error:
            cancel.set()
            bar.end(f"failed: {error.message}" if isinstance(error, SkylineError) else "cancelled")
            raise
        bar.end(f"predicted on {len(chosen)} GPU{'s' * (len(chosen) != 1)}")
        return result

    def _ended(self, working: asyncio.Future[DevicesReport]) -> None:
        self._path = ""
        # Whoever asked may be gone: then nobody else looks at what went wrong.
        if not working.cancelled():
            working.exception()

    def cancel(self, path: str) -> bool:
        """Stop the comparison of a script; False where none is under way."""
        if not path or path != self._path:
            return False
        self._cancel.set()
        return True

    def close(self) -> None:
        """Stop what is under way and wait until its processes are gone."""
        if self._path:
            self._cancel.set()
            if not self._idle.wait(_CLOSE_TIMEOUT_S):
                logger.error("comparing %s did not stop in time", self._path)
