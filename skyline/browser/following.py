"""Keeps the page current: shows profiles that other programs save, and measures the script again after a save.

A change on disk counts as a save, unless git has written at the same time.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from skyline.browser.subject import ShownProfile
from skyline.errors import Cancelled, SkylineError
from skyline.source import checkout
from skyline.source.line_map import same_code
from skyline.source.text import SourceText
from skyline.trace import store
from skyline.trace.profile import Profile

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.5
# An interrupted git leaves its lock file behind, so the wait is limited.
_LONGEST_GIT_LOOKS = 20
Measure = Callable[[threading.Event, Callable[[Profile], None], bool], Profile]
"""Runs the script and saves its profile. Stops when the event is set.

Passes a first profile to the callback once the script itself is measured, before other batch sizes are. The last
argument is true for the run that starts with the command, and false for runs that follow a save.
"""


class FileFollower:
    """Checks the files twice a second, on a separate thread."""

    def __init__(self, script: Path, subject: ShownProfile, measure: Measure | None) -> None:
        self._script = script
        self._subject = subject
        self._measure = measure
        self._stop = threading.Event()
        self._stamps: dict[str, tuple[int, int] | None] = {}
        self._tried: dict[str, str | None] = {}
        self._seen: Path | None = None
        # By starting the command, the user agrees to measurements on the current checkout.
        self._agreed = checkout.checkout_at(str(script))
        self._git: tuple[checkout.Stamp, ...] = checkout.stamps(str(script))
        self._moved: bool = False
        self._git_wrote: bool = False
        self._owed: bool = True
        self._by_hand: bool = True
        self._by_git: bool = False
        self._held_looks: int = 0
        self._note = ""
        self._thread = threading.Thread(target=self._follow, name="following", daemon=True)

    def start(self) -> None:
        """Start the thread. Returns at once."""
        self._thread.start()

    def close(self, timeout_s: float = 10.0) -> None:
        """Stop, and wait until a current run has ended."""
        self._stop.set()
        self._thread.join(timeout_s)

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                self._look()
            except SkylineError as error:
                self._subject.say(str(error))
            except Exception as error:
                # Keep following: the next saved profile may be readable.
                logger.exception("what was saved of %s cannot be shown", self._script)
                self._subject.say(f"The saved profile cannot be shown ({error}). Profile the script again.")
            self._stop.wait(_LOOK_EVERY_S)

    def _look(self) -> None:
        newest = store.latest(self._script)
        if newest is not None and newest != self._seen:
            self._seen = newest
            self._show(store.load(newest, self._script))
        if self._measure is not None and self._due():
            self._run(self._measure)

    def _show(self, profile: Profile) -> None:
        shown = self._subject.shown
        if shown is None or shown.report.id != profile.id:
            self._subject.show(profile)
        self._tried = {source.path: source.text for source in profile.sources}
        # Keep the old stamps, so that changes since the last check are still noticed.
        self._stamps = {path: self._stamps.get(path, _stamp(path)) for path in self._tried}

    def _due(self) -> bool:
        """True if the user saved a change of behaviour on a branch where they agreed to measurements."""
        if not self._settled():
            return False
        differs = any(_differs(path, text) for path, text in self._tried.items())
        if not differs and self._subject.shown is not None:
            self._owed = self._by_hand = False
            self._tell("")
            return False
        if not self._owed:
            if self._by_git:
                self._tell(
                    f"git changed {self._script.name} or one of its modules. Save it to measure again."
                )
            return False
        now = checkout.checkout_at(str(self._script))
        if now != self._agreed:
            where = f"skyline serve was started on {self._agreed} and measures only there"
            self._tell(f"{where}. {self._script.name} is now on {now}: start skyline serve again here.")
            return False
        return True

    def _settled(self) -> bool:
        """True once no file changes any more. Records whether the user or git made the change."""
        stamps = {path: _stamp(path) for path in self._tried}
        git = checkout.stamps(str(self._script))
        moves = stamps != self._stamps or git != self._git
        self._moved |= stamps != self._stamps
        self._git_wrote |= git != self._git
        self._stamps, self._git = stamps, git
        held = checkout.is_writing(str(self._script))
        self._held_looks = self._held_looks + 1 if held else 0
        if moves or 0 < self._held_looks < _LONGEST_GIT_LOOKS:
            return False
        if self._moved:
            self._by_git = self._git_wrote or held
            self._owed = not self._by_git
        self._moved = self._git_wrote = False
        return True

    def _tell(self, note: str) -> None:
        """Show the reason why nothing is measured. An empty text removes the reason."""
        if note != self._note:
            self._note = note
            self._subject.say(note)

    def _run(self, measure: Measure) -> None:
        paths = {*self._tried, str(self._script)}
        self._stamps = {path: _stamp(path) for path in paths}
        self._tried = {path: _text(path) for path in paths}
        by_hand = self._by_hand
        self._owed = self._by_git = self._by_hand = False
        self._note = ""
        self._subject.say(f"{self._script.name} is being measured", measuring=True)
        more = f"{self._script.name} is still being measured: other batch sizes and changes follow"
        try:
            profile = measure(self._stop, partial(self._subject.show, status=more), by_hand)
        except Cancelled:
            return
        except SkylineError as error:
            for path in (error.file, *error.files):
                if path:
                    self._tried.setdefault(path, _text(path))
                    self._stamps.setdefault(path, _stamp(path))
            note = (
                "\nThe report is of an earlier version of the code."
                if self._subject.shown is not None
                else ""
            )
            self._subject.say(f"{error}{note}")
            return
        self._seen = store.latest(self._script)
        self._subject.show(profile)
        for source in profile.sources:
            # A file first seen now may have changed during the run: None makes the next check compare it.
            self._stamps.setdefault(source.path, None)
        self._show(profile)


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _text(path: str) -> str | None:
    try:
        return SourceText.read(path).text
    except SkylineError:
        return None


def _differs(path: str, text: str | None) -> bool:
    current = _text(path)
    if current is None or text is None:
        return current is not text
    return current != text and not same_code(current, text)
