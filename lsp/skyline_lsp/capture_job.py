"""One profiling run: a worker thread that runs the child process and prepares its profile."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from skyline.capture.process import Starter
from skyline.capture.request import Known, Progress
from skyline.capture.session import capture
from skyline.errors import Cancelled, SkylineError
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_profile import gpu_profile
from skyline.trace.profile import Profile
from skyline_lsp.launched import LaunchedRun
from skyline_lsp.on_host import captured_on_host

logger = logging.getLogger(__name__)

_LONGEST_OUTPUT = 2000
"""Maximum number of characters logged per piece of script output."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Result]):
    """Result of a job: a result, or an error for the user. With neither, the job was cancelled."""

    result: Result | None = None
    error: SkylineError | None = None


class CaptureJob(Generic[Result]):
    """Runs a capture, then ``prepare``, on a worker thread, which also makes all callbacks."""

    def __init__(
        self,
        asked: LaunchedRun,
        prepare: Callable[[Profile], Result],
        *,
        starter: Starter,
        on_partial: Callable[[Profile], None],
        on_progress: Callable[[Progress], None],
        on_done: Callable[[Outcome[Result]], None],
    ) -> None:
        self.asked = asked
        self.stage = Progress("launch", "starting", 0.0)
        self.known: Known | None = None
        self._starter = starter
        self._prepare = prepare
        self._on_partial = on_partial
        self._on_progress = on_progress
        self._on_done = on_done
        self._cancel = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"profile {asked.request.script.name}", daemon=True
        )

    def start(self) -> None:
        """Start the worker thread. Returns at once."""
        self._thread.start()

    def cancel(self) -> None:
        """Request the run to stop. ``on_done`` is called once its process has ended."""
        self._cancel.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the job. Returns False on timeout."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        self._on_done(self._outcome())

    def _outcome(self) -> Outcome[Result]:
        try:
            profile = self._profile()
            if self._cancel.is_set():
                return Outcome()
            self._on_progress(Progress("analyse", "analysing the recording", 0.97))
            return Outcome(self._prepare(profile))
        except Cancelled:
            return Outcome()
        except SkylineError as error:
            return Outcome(error=error)
        except Exception as error:
            logger.exception("profiling %s failed", self.asked.request.script)
            hint = "This is a fault in Skyline: please report it with the server's log."
            return Outcome(error=SkylineError(f"{type(error).__name__}: {error}", hint=hint))

    def _profile(self) -> Profile:
        if self.asked.host:
            return captured_on_host(
                self.asked,
                progress=self._on_progress,
                output=log_output,
                cancel=self._cancel,
            )
        request = self.asked.launched()
        profiled = gpu_profile if request.gpu else capture
        return profiled(
            request,
            progress=self._on_progress,
            output=log_output,
            cancel=self._cancel,
            on_partial=self._on_partial,
            starter=self._starter,
        )


def log_output(text: str) -> None:
    """Log the output of a script. A long text is shortened."""
    words = text[:_LONGEST_OUTPUT].rstrip()
    if words:
        # A script may print faster than the client reads the log.
        left_out = len(text.rstrip()) - len(words)
        logger.info("script: %s%s", words, f" … ({left_out} more characters)" if left_out > 0 else "")
