"""Requests about a run in progress, from people at attached terminals."""

from __future__ import annotations

from collections.abc import Callable

from skyline.lazy_dataclass import dataclass
from skyline.watch.actions import profile_command
from skyline.watch.clients import Message
from skyline.watch.course import Course
from skyline.watch.watcher import Watcher

PAUSE, CONTINUE, PROFILE, STOP = "pause", "continue", "profile", "stop"
REQUESTS = (PAUSE, CONTINUE, PROFILE, STOP)


@dataclass(frozen=True, slots=True)
class Requests:
    """Carries out requests in ``allowed``. ``go_on`` continues the paused processes of the run."""

    watcher: Watcher
    allowed: frozenset[str]
    go_on: Callable[[], None]

    def answer(self, asked: str) -> Message:
        """Carries out a request; ``text`` is the result, ``done`` is False if refused, ``hint`` is the next step."""
        if asked not in REQUESTS:
            return _refused(f"There is no request {asked!r}", f"Requests: {', '.join(REQUESTS)}.")
        if asked != CONTINUE and asked not in self.allowed:
            return _refused(
                f"{asked} is not allowed for this run",
                f"Start the next one with skyline watch --allow {asked}.",
            )
        if asked == CONTINUE:
            self.go_on()
            return self._done("a client asked the run to continue")
        known = {number: one for number, one in self.watcher.courses.items() if one.start is not None}
        if not known:
            return _refused("No training iteration was seen yet", "Ask again in a moment.")
        number = min(known, key=lambda one: known[one].rank)
        return self._act(asked, number, known)

    def _act(self, asked: str, number: int, known: dict[int, Course]) -> Message:
        course = known[number]
        beside, at = self.watcher.actions.beside, course.iteration
        if asked == PAUSE:
            self.watcher.pause([one.start.process for one in known.values() if one.start is not None])
            return self._done("paused because a client asked")
        self.go_on()
        if asked == PROFILE:
            self.watcher.command(number, profile_command(f"{beside}-asked-{at}.trace.json"))
            return self._done("the next iterations are profiled at the request of a client")
        self.watcher.stop(course, f"{beside}-stopped-{at}.pt", "of a client's request")
        return _told("stopping the run")

    def _done(self, text: str) -> Message:
        self.watcher.report(text)
        return _told(text)


def _told(text: str) -> Message:
    return {"done": True, "text": text, "hint": ""}


def _refused(text: str, hint: str) -> Message:
    return {"done": False, "text": text, "hint": hint}
