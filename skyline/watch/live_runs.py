"""The watched runs in progress on this machine, each with a file in the data directory."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.ledger.ledger import ledger_path
from skyline.watch.heard_run import SOCKETS

_LARGEST_BYTES = 1 << 20
_SAME_START_S = 2.0
"""The largest difference between two readings of one process's start, as the clock may be set in between."""


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run as its file describes it.

    ``process`` is the number of the process that was started, at ``process_started``, on ``host``. ``folder``
    holds the sockets, ``options`` are the options of ``skyline watch`` as typed in ``working_directory``.
    Settings come from ``project``. ``history`` is empty if none is stored; names of files of stops and
    profiles begin with ``beside``.
    """

    name: str
    command: tuple[str, ...]
    script: str
    project: str
    started: str
    host: str
    process: int
    process_started: float
    folder: str
    working_directory: str
    options: tuple[str, ...]
    history: str
    beside: str

    @property
    def goes_on(self) -> bool:
        """True while its process lives."""
        try:
            process = psutil.Process(self.process)
            same = abs(process.create_time() - self.process_started) < _SAME_START_S
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    @property
    def path(self) -> Path:
        """Its file."""
        return _folder() / f"{self.name}.json"

    def is_meant(self, asked: str) -> bool:
        """True for its name, its script, or the number of its process."""
        script = Path(self.script)
        return asked in {self.name, str(self.process)} or (
            bool(self.script)
            and (asked in {script.name, script.stem} or os.path.abspath(asked) == self.script)
        )


class Claim:
    """The right to watch a run: a lock on its file, which the system releases when its owner ends, in any way."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def announce(cls, live: LiveRun) -> Claim:
        """Writes the file of a new run. Raises OSError if that is not possible."""
        live.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = live.path.with_suffix(f".{os.getpid()}")
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, msgspec.json.encode(live))
            os.replace(new, live.path)
        except BaseException:
            os.close(descriptor)
            new.unlink(missing_ok=True)
            raise
        return cls(live.path, descriptor)

    @classmethod
    def of(cls, live: LiveRun) -> Claim | None:
        """The right to a run that nobody watches any more; None if somebody does."""
        try:
            descriptor = os.open(live.path, os.O_RDWR)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return cls(live.path, descriptor)

    def release(self, *, ended: bool) -> None:
        """Releases the right; the file of an ended run is removed."""
        if ended:
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def live_runs() -> list[LiveRun]:
    """The runs on this machine, the latest first; files and sockets of ended runs are removed."""
    found: list[LiveRun] = []
    for live in _written():
        if live.goes_on:
            found.append(live)
        elif (claim := Claim.of(live)) is not None:
            # Its watcher was killed before the run ended.
            if Path(live.folder).name.startswith(SOCKETS):
                shutil.rmtree(live.folder, ignore_errors=True)
            claim.release(ended=True)
    return sorted(found, key=lambda one: (one.process_started, one.name), reverse=True)


def live_run(asked: str) -> LiveRun:
    """The run with this name; with an empty text, the only run.

    Raises:
        UsageError: there is none, or there are several.
    """
    runs = live_runs()
    meant = [one for one in runs if not asked or one.is_meant(asked)]
    names = ", ".join(one.name for one in runs)
    if len(meant) == 1:
        return meant[0]
    if not runs:
        raise UsageError(
            "No run is active under skyline watch on this machine",
            hint="Start one: skyline watch train.py. A run that has ended is shown by: skyline watch --show FILE.",
        )
    if not meant:
        raise UsageError(f"There is no active run {asked}", hint=f"Active runs: {names}.")
    raise UsageError(
        "Several runs are active",
        hint=f"Name one, for example skyline watch --attach {meant[0].name}. Active runs: {names}.",
    )


def _folder() -> Path:
    """The folder of the files, next to the ledger."""
    return ledger_path().parent / "watched"


def _written() -> Iterator[LiveRun]:
    """The files of runs on this machine; several machines may share a home directory."""
    for path in sorted(_folder().glob("*.json")):
        try:
            if path.stat().st_size > _LARGEST_BYTES:
                continue
            live = msgspec.json.decode(path.read_bytes(), type=LiveRun)
        except (OSError, msgspec.MsgspecError):
            continue
        if live.host == platform.node() and live.path == path:
            yield live
