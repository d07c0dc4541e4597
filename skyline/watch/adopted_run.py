"""A run whose watcher was killed, watched again by another process."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from skyline.errors import UsageError
from skyline.watch.heard_run import TICK_S, Heard, HeardRun
from skyline.watch.live_runs import LiveRun


class AdoptedRun(HeardRun):
    """Listens where the first watcher did; the hooks reconnect by themselves. The exit code remains unknown."""

    def __init__(self, live: LiveRun) -> None:
        self._live = live
        super().__init__(_own_folder(Path(live.folder)))

    def root(self) -> int:
        """The number of the process that the first watcher started."""
        return self._live.process

    def listen(self, heard: Heard, tick: Callable[[], None]) -> None:
        """Passes on records until the process has ended."""
        self._heard = heard
        while self._live.goes_on:
            self._take(TICK_S)
            tick()
        while self._take(0.0):
            pass

    def close(self) -> None:
        """Closes the sockets, and removes them only after the run has ended, since its hooks look for them."""
        super().close()
        if not self._live.goes_on:
            shutil.rmtree(self.folder, ignore_errors=True)


def _own_folder(folder: Path) -> Path:
    """The folder of the sockets, created again if it was removed; no other user may write there.

    Raises:
        UsageError: another user's folder is in its place.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid != os.getuid()
        or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        raise UsageError(
            f"{folder} belongs to somebody else: the run cannot be watched again",
            hint="The run continues without alerts, with its own output.",
        )
    return folder
