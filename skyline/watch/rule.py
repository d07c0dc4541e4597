"""Definition of a rule over a training run, of its alert, and of its note."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from skyline.lazy_dataclass import dataclass
from skyline.trace.record import CodeLine

if TYPE_CHECKING:
    from skyline.watch.course import Course


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule holds: the title with its main number, evidence in words, and the line of the user's code, if known."""

    title: str
    evidence: tuple[str, ...] = ()
    place: CodeLine | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """A cause outside of the training: the title with its main number, and evidence in words.

    It is printed and stored in the history. It is no alert, and no action follows from it.
    """

    title: str
    evidence: tuple[str, ...] = ()


class WatchRule(Protocol):
    """A rule for one kind of problem: a frozen dataclass whose fields are its thresholds, each with a default.

    A module of the catalogue binds the class to ``RULE``; another package declares it as an entry point of the group
    ``skyline.watch_rules``. The name of the rule is the name of the module or the entry point.
    """

    def check(self, course: Course) -> Alert | Note | None:
        """The alert if the problem is present; None otherwise, or if the necessary facts are unknown.

        A note if it only looks like the problem, because of a cause outside of the training.
        """
        ...
