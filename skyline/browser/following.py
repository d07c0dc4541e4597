"""Keeps the page current: shows profiles that other programs save, and measures again when the script is saved."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from skyline.browser.subject import Subject
from skyline.errors import Cancelled, SkylineError
from skyline.source.same_code import same_code
from skyline.source.text import SourceText
from skyline.trace import store
from skyline.trace.profile import Profile

_LOOK_EVERY_S = 0.5
Measure = Callable[[threading.Event, Callable[[Profile], None]], Profile]
"""Runs the script and saves what came of it; stops when the event is set.

Tells what it has as soon as the script itself is measured, before its other batch sizes are.
"""


class Follower:
    """Looks twice a second, on a thread of its own."""

    def __init__(self, script: Path, subject: Subject, measure: Measure | None) -> None:
        self._script = script
        self._subject = subject
        self._measure = measure
        self._stop = threading.Event()
        self._stamps: dict[str, tuple[int, int] | None] = {}
        self._tried: dict[str, str | None] = {}
        self._seen: Path | None = None
        self._thread = threading.Thread(target=self._follow, name="following", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def close(self, timeout_s: float = 10.0) -> None:
        """Stop, and wait until a run under way is gone."""
        self._stop.set()
        self._thread.join(timeout_s)

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                self._look()
            except SkylineError as error:
                self._subject.say(str(error))
            self._stop.wait(_LOOK_EVERY_S)

    def _look(self) -> None:
        newest = store.latest(self._script)
        if newest is not None and newest != self._seen:
            self._seen = newest
            self._show(store.load(newest))
        if self._measure is not None and (self._subject.shown is None or self._changed()):
            self._run(self._measure)

    def _show(self, profile: Profile) -> None:
        shown = self._subject.shown
        if shown is None or shown.report.id != profile.id:
            self._subject.show(profile)
        self._tried = {source.path: source.text for source in profile.sources}
        self._stamps = {path: _stamp(path) for path in self._tried}

    def _changed(self) -> bool:
        """Whether any file of the run does something else by now; it has to have been left alone for a moment."""
        stamps = {path: _stamp(path) for path in self._tried}
        settled, self._stamps = stamps == self._stamps, stamps
        return settled and any(_differs(path, text) for path, text in self._tried.items())

    def _run(self, measure: Measure) -> None:
        self._tried = {path: _text(path) for path in {*self._tried, str(self._script)}}
        self._subject.say(f"{self._script.name} is being measured")
        try:
            profile = measure(self._stop, self._subject.show)
        except Cancelled:
            return
        except SkylineError as error:
            for path in (error.file, *error.files):
                if path:
                    self._tried.setdefault(path, _text(path))
            shown = self._subject.shown
            note = "\nWhat is shown is of an earlier text." if shown is not None else ""
            self._subject.say(f"{error}{note}")
            if shown is None:
                self._wait_for_a_save()
            return
        self._seen = store.latest(self._script)
        self._subject.show(profile)
        self._show(profile)

    def _wait_for_a_save(self) -> None:
        """There is nothing to show yet: look again only when a file that had a part in it has changed."""
        before = {path: _stamp(path) for path in self._tried}
        while not self._stop.wait(_LOOK_EVERY_S):
            newest = store.latest(self._script)
            if before != {path: _stamp(path) for path in self._tried} or newest not in (None, self._seen):
                return


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
