"""Runs started by a launcher such as torchrun: the setting ``profile.launcher`` and the option ``launcher``."""

from __future__ import annotations

from dataclasses import replace

from skyline.capture.request import CaptureRequest
from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LaunchedRun:
    """A requested run. ``launcher`` are the words before the script; empty: Python starts the script.

    ``host`` is the machine that the script runs on; empty: this machine.
    """

    request: CaptureRequest
    launcher: tuple[str, ...] = ()
    host: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The whole command: the launcher, the script or module, its arguments."""
        request = self.request
        named = ("-m", request.module) if request.module else (str(request.script),)
        return (*self.launcher, *named, *request.arguments)

    def launched(self) -> CaptureRequest:
        """The request with the ranks, variables, arguments and interpreter that the launcher gives to the script.

        Starts launchers of environments, such as ``uv run``: call it on a worker thread. Raises UsageError if the
        launcher cannot be read.
        """
        request = self.request
        if not self.launcher:
            return request
        # Imported only here: most runs have no launcher, and the server starts faster without these modules.
        from skyline.launchers.launch import launch_of, launched

        launch = launch_of(self.words, request.working_directory)
        if (launch.script, launch.module) != ("" if request.module else str(request.script), request.module):
            raise UsageError(
                f"`{' '.join(self.launcher)}` is not a launcher that Skyline supports",
                hint="Supported: torchrun, accelerate launch, deepspeed, uv run and others (docs/launchers.md).",
            )
        return replace(launched(request, launch), arguments=launch.arguments)
