"""What to do when files are saved, once the saves have settled: profile again, show a profile that was saved."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from skyline.settings import pyproject
from skyline.trace import store

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer

# Editors write a file in several steps, and people save several files at once.
_SETTLE_S = 0.3


class Saves:
    """Collects saves, from the client and from the disk alike, and acts on them together."""

    def __init__(self, server: SkylineServer) -> None:
        self._server = server
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use this loop from now on."""
        self._loop = loop

    def from_disk(self, path: str) -> None:
        """A watched file was written; called from the watching thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.saved, path)

    def saved(self, path: str) -> None:
        """A file was written; called on the event loop."""
        self._pending.add(path)
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None:
            self._timer = self._loop.call_later(_SETTLE_S, self._settled)

    def _settled(self) -> None:
        paths, self._pending, self._timer = self._pending, set(), None
        server = self._server
        if any(os.path.basename(path) == pyproject.NAME for path in paths):
            server.settings_changed()
        for path in paths:
            if path.endswith(store.SUFFIX):
                self._profile_saved(path)
            else:
                server.texts_changed(path)
        if not server.trusted:
            return
        concerned = {state.path: state for path in paths for state in server.scripts.concerned_by(path)}
        for state in concerned.values():
            settings = server.settings_at(state.path)
            on_save = settings.profile.on_save
            wanted = state.asked or (on_save == "always" and server.is_training_script(state.path))
            if not settings.enable or on_save == "never" or not wanted:
                continue
            if state.changed_since_attempt(server.texts):
                server.profiler.start(state)

    def _profile_saved(self, path: str) -> None:
        """Another front end, such as the command line, has profiled a script."""
        folder, name = os.path.split(path)
        for state in self._server.scripts:
            home, script = os.path.split(state.path)
            stem = os.path.splitext(script)[0]
            if (
                os.path.join(home, store.FOLDER) == folder
                and name.startswith(f"{stem}-")
                and state.job is None
            ):
                self._server.profiler.restore(state)
