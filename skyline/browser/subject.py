"""The script that is shown: its newest profile, and whoever waits for a newer one."""

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
    """A profile made ready to be shown; ``number`` grows with each one."""

    number: int
    analysis: Analysis
    report: ProfileReport
    whatifs: WhatIfReport


@dataclass(frozen=True, slots=True)
class News:
    """The state of a page: its profile, the progress or the error in words, and whether a measurement is under way."""

    number: int
    status: str
    measuring: bool


class ShownProfile:
    """Holds what is shown; any thread may put something newer in its place, and any may wait for that."""

    def __init__(self) -> None:
        self._shown: Shown | None = None
        self._status = ""
        self._measuring = False
        self._closed = False
        self._lock = threading.Lock()
        self._followers: list[Callable[[], None]] = []

    @property
    def closed(self) -> bool:
        """True once no more news can come."""
        return self._closed

    @property
    def shown(self) -> Shown | None:
        """The newest, None while there is none."""
        with self._lock:
            return self._shown

    @property
    def news(self) -> News:
        """As of now."""
        with self._lock:
            return self._news()

    def show(self, profile: Profile, *, status: str = "") -> None:
        """Analyse a profile and show it in place of the one there was.

        A measurement that goes on tells its ``status``.
        """
        analysis = analyse(profile)
        report, whatifs = build.profile_report(analysis), build.whatif_report(analysis, None)
        with self._lock:
            number = self._shown.number + 1 if self._shown is not None else 1
            self._shown = Shown(number, analysis, report, whatifs)
            self._status, self._measuring = status, bool(status)
            self._tell()

    def say(self, status: str, *, measuring: bool = False) -> None:
        """Tell the progress of a measurement, or a reason; the empty text: nothing."""
        with self._lock:
            if (status, measuring) != (self._status, self._measuring):
                self._status, self._measuring = status, measuring
                self._tell()

    @contextmanager
    def followed(self, on_change: Callable[[], None]) -> Generator[None, None, None]:
        """Have ``on_change`` called, on any thread, whenever there is news, or no more to come."""
        with self._lock:
            self._followers.append(on_change)
        try:
            yield
        finally:
            with self._lock:
                self._followers.remove(on_change)

    def close(self) -> None:
        """Let everybody go who waits."""
        with self._lock:
            self._closed = True
            self._tell()

    def _tell(self) -> None:
        for follower in self._followers:
            follower()

    def _news(self) -> News:
        number = self._shown.number if self._shown is not None else 0
        return News(number, self._status, self._measuring)
