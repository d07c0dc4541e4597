"""The displayed script: its newest profile, and the listeners that wait for a newer one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from skyline.analysis.analyse import Analysis, analyse
from skyline.lazy_dataclass import dataclass
from skyline.report import build
from skyline.report.schema import ProfileReport, WhatIfReport
from skyline.trace.profile import Profile


@dataclass(frozen=True, slots=True)
class Shown:
    """A profile prepared for display. ``number`` increases with each profile."""

    number: int
    analysis: Analysis
    report: ProfileReport
    whatifs: WhatIfReport


@dataclass(frozen=True, slots=True)
class News:
    """The state of a page: the number of its profile, its progress or error as text, and whether a run is measured."""

    number: int
    status: str
    measuring: bool


class ShownProfile:
    """Holds the displayed profile. Any thread may replace it, and any thread may wait for a newer one."""

    def __init__(self) -> None:
        self._shown: Shown | None = None
        self._status = ""
        self._measuring = False
        self._closed = False
        self._lock = threading.Lock()
        self._followers: list[Callable[[], None]] = []

    @property
    def closed(self) -> bool:
        """True once no more news can arrive."""
        return self._closed

    @property
    def shown(self) -> Shown | None:
        """The newest profile. None if there is none yet."""
        with self._lock:
            return self._shown

    @property
    def news(self) -> News:
        """The current state."""
        with self._lock:
            return self._news()

    def show(self, profile: Profile, *, status: str = "") -> None:
        """Analyse a profile and display it in place of the previous one.

        ``status`` is the progress of a measurement that continues; empty if it has ended.
        """
        analysis = analyse(profile)
        report, whatifs = build.profile_report(analysis), build.whatif_report(analysis, None)
        with self._lock:
            number = self._shown.number + 1 if self._shown is not None else 1
            self._shown = Shown(number, analysis, report, whatifs)
            self._status, self._measuring = status, bool(status)
            self._tell()

    def say(self, status: str, *, measuring: bool = False) -> None:
        """Set the progress of a measurement or another message. An empty text removes the message."""
        with self._lock:
            if (status, measuring) != (self._status, self._measuring):
                self._status, self._measuring = status, measuring
                self._tell()

    @contextmanager
    def followed(self, on_change: Callable[[], None]) -> Generator[None, None, None]:
        """A context in which ``on_change`` is called, on any thread, after every change and at the end."""
        with self._lock:
            self._followers.append(on_change)
        try:
            yield
        finally:
            with self._lock:
                self._followers.remove(on_change)

    def close(self) -> None:
        """Release all waiting listeners."""
        with self._lock:
            self._closed = True
            self._tell()

    def _tell(self) -> None:
        for follower in self._followers:
            follower()

    def _news(self) -> News:
        number = self._shown.number if self._shown is not None else 0
        return News(number, self._status, self._measuring)
