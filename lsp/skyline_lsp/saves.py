"""Handles file changes once they settle: refreshes the display and measures the scripts that the user saved."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lsprotocol import types

from skyline.settings import pyproject
from skyline.source import checkout
from skyline.trace import store
from skyline_lsp.state import ScriptState

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer

_AUTOMATIC = ("everySave", "always")
"""Values of ``profile.onSave`` with which an automatic save measures, too."""

# Editors write a file in several steps, and users save several files at once.
_SETTLE_S = 0.3
# A checkout of many files takes a while, but an interrupted one leaves its lock file behind.
_LONGEST_GIT_S = 10.0


class Saves:
    """Collects changes and handles them together.

    A save by hand that the client reports triggers a measurement. An automatic save does so only if
    the setting ``profile.onSave`` asks for it. A change on disk may come from git or a formatter, so it
    only refreshes the display. If the client has no documents (``follows_disk``), a change on disk counts as a
    save, unless git wrote at the same time.
    """

    def __init__(self, server: SkylineServer) -> None:
        self.follows_disk = False
        self._server = server
        self._loop: asyncio.AbstractEventLoop | None = None
        self._by_person: set[str] = set()
        self._automatic: set[str] = set()
        self._on_disk: set[str] = set()
        self._marks: set[str] = set()
        self._git: dict[str, tuple[checkout.Stamp, ...]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._waited_s = 0.0

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the event loop that handles the changes."""
        self._loop = loop

    def follow(self, paths: Iterable[str]) -> None:
        """Watch these files for changes on disk, and detect changes made by git."""
        files = set(paths)
        self._server.watch.add(files)
        if self.follows_disk:
            folders = {os.path.dirname(path) for path in files} - self._git.keys()
            self._git.update((folder, checkout.stamps(folder)) for folder in folders)
            self._watch_git(folders)

    def from_disk(self, path: str) -> None:
        """Record a write to a watched file by any program. Called from the watching thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.changed_on_disk, path)

    def changed_on_disk(self, path: str) -> None:
        """Record a write to a file by any program. Called on the event loop."""
        self._on_disk.add(path)
        self._settle()

    def about_to_save(self, path: str, reason: types.TextDocumentSaveReason) -> None:
        """Record why the client is about to save. A client that gives no reason counts as saving by hand."""
        if reason == types.TextDocumentSaveReason.Manual:
            self._automatic.discard(path)
        else:
            self._automatic.add(path)

    def saved(self, path: str) -> None:
        """Record a save by the client. Called on the event loop."""
        automatic = path in self._automatic
        self._automatic.discard(path)
        if automatic and self._server.settings_at(path).profile.on_save not in _AUTOMATIC:
            self._on_disk.add(path)
        else:
            self._by_person.add(path)
        self._settle()

    def measure(self, state: ScriptState) -> None:
        """Measure a saved script if the save changed its behaviour and the user agrees."""
        server = self._server
        if not self._wanted(state):
            return
        if self._always(state) or server.permission.holds(state.path):
            server.profiler.start(state, by_hand=False)
        else:
            server.permission.ask(state.path, lambda: self.measure(state))

    def _wanted(self, state: ScriptState) -> bool:
        """True if a save of the script in its current state should be measured."""
        server, settings = self._server, self._server.settings_at(state.path)
        # A run on a host uses the network of that host, which the setting cannot restrict.
        kept_here = settings.network == "loopback" and server.profiler.host_of(state) != ""
        return (
            server.trusted
            and settings.enable
            and not kept_here
            and settings.profile.on_save != "never"
            and (state.asked or self._always(state))
            and state.changed_since_attempt(server.texts)
        )

    def _always(self, state: ScriptState) -> bool:
        on_save = self._server.settings_at(state.path).profile.on_save
        return on_save == "always" and self._server.is_training_script(state.path)

    def _settle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None:
            self._timer = self._loop.call_later(_SETTLE_S, self._settled)

    def _settled(self) -> None:
        files = self._on_disk - self._marks
        if self.follows_disk and self._git_is_writing(files):
            self._waited_s += _SETTLE_S
            self._settle()
            return
        by_git = self._of_git(files) if self.follows_disk else files
        saved = self._by_person | (files - by_git)
        self._by_person, self._on_disk, self._timer, self._waited_s = set(), set(), None, 0.0
        self._show(saved | files)
        for state in self._concerned(saved):
            self.measure(state)
        if self.follows_disk:
            self._tell_of_git(self._concerned(by_git - saved))

    def _git_is_writing(self, files: set[str]) -> bool:
        """True if git is still writing: more changes may follow, and their origin is not known yet."""
        return self._waited_s < _LONGEST_GIT_S and any(map(checkout.is_writing, files))

    def _of_git(self, files: set[str]) -> set[str]:
        """The files whose repository git has also written to since changes last settled."""
        now = {folder: checkout.stamps(folder) for folder in self._git}
        written = {folder for folder, stamps in now.items() if stamps != self._git[folder]}
        self._git = now
        # A repository may have been created in the meantime.
        self._watch_git(written)
        return {path for path in files if os.path.dirname(path) in written or checkout.is_writing(path)}

    def _watch_git(self, folders: Iterable[str]) -> None:
        self._marks.update(mark for folder in folders for mark in checkout.marks(folder))
        self._server.watch.add(self._marks)

    def _concerned(self, paths: set[str]) -> list[ScriptState]:
        found = {state.path: state for path in paths for state in self._server.scripts.concerned_by(path)}
        return list(found.values())

    def _show(self, paths: set[str]) -> None:
        server = self._server
        if any(os.path.basename(path) == pyproject.NAME for path in paths):
            server.settings_changed()
        for path in paths:
            if path.endswith(store.SUFFIX):
                self._profile_saved(path)
            else:
                server.texts_changed(path)

    def _tell_of_git(self, states: Iterable[ScriptState]) -> None:
        for state in filter(self._wanted, states):
            name = os.path.basename(state.path)
            words = f"git changed {name} or one of its modules. Profile it again (r in the terminal UI) to measure it."
            self._server.window_show_message(types.ShowMessageParams(types.MessageType.Info, words))

    def _profile_saved(self, path: str) -> None:
        """Load a profile that another front end, such as the command line, has saved."""
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
