"""The part of a trial that runs on a Dask worker: checks of its files, and the paired measurement."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

from skyline.capture.process import RunningProcess, Start
from skyline.capture.request import CaptureRequest
from skyline.capture.warm_pool import WarmPool
from skyline.errors import CaptureImpossible, SkylineError
from skyline.lazy_dataclass import dataclass
from skyline.source.knob import SettingPlace
from skyline.source.settings_file import still_holds
from skyline.source.text import SourceText
from skyline.trace.profile import Profile
from skyline.verification.measure import Effort, Measured, measure
from skyline.version import __version__

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Variables of thread numbers; Dask sets the first three to 1 (``distributed.nanny.pre-spawn-environ``)."""
_ALLOCATOR = ("MALLOC_TRIM_THRESHOLD_",)
"""Variables that Dask sets as well; they make PyTorch's allocations on a CPU slower or faster."""
_running: dict[str, threading.Event] = {}
"""The trials of this process by their keys, each with the event that cancels it."""
_cancelled: deque[str] = deque(maxlen=64)
"""The keys of cancelled trials, some of which had not begun."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files that must be equal on a worker: paths with digests of their texts, and a setting in a file."""

    version: str
    interpreter: str
    texts: tuple[tuple[str, str], ...]
    setting: SettingPlace | None = None

    @classmethod
    def of(cls, profile: Profile, request: CaptureRequest) -> Files:
        """The files of the profile."""
        texts = tuple((one.path, _digest(one.text)) for one in profile.sources)
        return cls(__version__, request.interpreter or "", texts, profile.setting)


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """A trial for a worker. ``variables`` are environment variables for threads and allocator; None: not set."""

    key: str
    files: Files
    base: CaptureRequest
    changed: CaptureRequest
    effort: Effort
    words: str
    variables: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of Skyline in a form that can always be sent: its class and its attributes."""

    kind: type[SkylineError]
    attributes: Mapping[str, object]

    @classmethod
    def of(cls, error: SkylineError) -> Failure:
        """The form of an error that was raised on the worker."""
        return cls(type(error), dict(vars(error)))

    def error(self) -> SkylineError:
        """The original error."""
        found = self.kind.__new__(self.kind)
        vars(found).update(self.attributes)
        found.args = (found.message,)
        return found


def thread_variables() -> dict[str, str | None]:
    """The variables of this process with which the script is profiled and measured here."""
    return {name: os.environ.get(name) for name in (*_THREADS, *_ALLOCATOR)}


def problem_here(files: Files) -> tuple[str, str]:
    """The name of this machine, and the reason why it cannot run trials; empty if it can."""
    host = socket.gethostname()
    if files.version != __version__:
        return host, f"it has Skyline {__version__}, not {files.version}"
    if files.interpreter and shutil.which(files.interpreter) is None:
        return host, f"it has no {files.interpreter}"
    for path, digest in files.texts:
        try:
            now = _digest(SourceText.read(path).text)
        except SkylineError:
            return host, f"it has no {path}"
        if now != digest:
            return host, f"its {path} differs from the profile's"
    if files.setting is not None and not still_holds(files.setting):
        return host, f"its {files.setting.file} differs from the profile's"
    return host, ""


def measure_here(task: WorkerTask) -> Measured | Failure:
    """Measures the change in turns with the unchanged script, both on this machine. No process remains."""
    cancel = _running[task.key] = threading.Event()
    if task.key in _cancelled:
        cancel.set()
    try:
        _, problem = problem_here(task.files)
        if problem:
            raise CaptureImpossible(f"The worker cannot run the script: {problem}")
        with closing(WarmPool()) as pool:

            def start(one: Start) -> RunningProcess:
                return pool.start(replace(one, environment=_with(one.environment, task.variables)))

            return measure(
                task.base,
                task.changed,
                task.effort,
                words=task.words,
                progress=lambda _: None,
                cancel=cancel,
                starter=start,
            )
    except SkylineError as error:
        return Failure.of(error)
    finally:
        del _running[task.key]


def cancel_here(key: str) -> None:
    """Ends a trial of this process, even one that has not begun; does nothing if it is over."""
    _cancelled.append(key)
    if found := _running.get(key):
        found.set()


def _with(environment: Mapping[str, str], variables: Mapping[str, str | None]) -> dict[str, str]:
    found = {name: value for name, value in environment.items() if name not in variables}
    return found | {name: value for name, value in variables.items() if value is not None}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
