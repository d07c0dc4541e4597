"""Runs a request on the host of the setting ``profile.host``, and reports its progress."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path

from skyline.capture.request import Progress, ProgressCallback
from skyline.errors import UsageError
from skyline.hosts.remote_profile import HostRun, profile_on_host
from skyline.trace.profile import Profile
from skyline_lsp.launched import LaunchedRun

_STAGE = re.compile(r"skyline: (launch|warm up|measure|record|curve|try|analyse)(?:: (.*))?")
_FRACTIONS = {
    "launch": 0.1,
    "warm up": 0.2,
    "measure": 0.3,
    "record": 0.4,
    "curve": 0.6,
    "try": 0.95,
    "analyse": 0.97,
}
"""Progress at the beginning of each stage. A host prints only the names of the stages."""


def captured_on_host(
    asked: LaunchedRun,
    *,
    progress: ProgressCallback,
    output: Callable[[str], None],
    cancel: threading.Event,
) -> Profile:
    """Profile a script on the host of a run. Raises SkylineError, and Cancelled once ``cancel`` is set."""

    def listen(line: str) -> None:
        stage = _STAGE.fullmatch(line)
        if stage is None:
            output(f"{line}\n")
            return
        message = f"{stage[2]}, on {asked.host}" if stage[2] else f"on {asked.host}"
        progress(Progress(stage[1], message, _FRACTIONS[stage[1]]))

    progress(Progress("launch", f"connecting to {asked.host}", 0.02))
    return profile_on_host(
        host_run(asked),
        lambda remark: progress(Progress("launch", remark, 0.05)),
        listener=listen,
        cancel=cancel,
    )


def host_run(asked: LaunchedRun) -> HostRun:
    """The same run on its host. The host chooses the interpreter, because the request names one of this machine."""
    request = asked.request
    directory = request.working_directory or Path.cwd()
    options = ["--device", request.device, "--steps", str(request.steps)]
    options += ["--timeout", f"{request.timeout_s:g}"]
    options += ["--budget", f"{request.budget_s:g}" if request.batch_points else "0"]
    if request.warmup is not None:
        options += ["--warmup", str(request.warmup)]
    return HostRun(
        asked.host,
        request.script,
        directory,
        asked.words,
        "" if request.module else str(request.script),
        tuple(options),
        module=request.module,
        variables=request.variables,
        texts=request.source_overrides,
    )


def check_measured_here(profile: Profile, command: str) -> None:
    """Raise UsageError if the profile is from a host and the command measures on this machine."""
    host = profile.environment.device.host
    if host:
        raise UsageError(
            f"{Path(profile.script).name} was profiled on {host}, but {command} measures on this machine",
            hint=f"Profile it on this machine first, without profile.host, or run skyline on {host}.",
        )
