"""Definition of a finding and of the rules that search for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from skyline.lazy_dataclass import dataclass
from skyline.trace.record import CodeLine

if TYPE_CHECKING:
    # The import serves type checking only: readers of findings do not need the analysis.
    from skyline.job.job import Job
    from skyline.whatif.subject import Subject


@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of evidence for a finding, in words, with its line (empty and 0: no particular line)."""

    text: str
    file: str = ""
    line: int = 0
    cell: str = ""
    """In a notebook, the place as its reader knows it. The report fills it in."""

    @classmethod
    def at(cls, text: str, place: CodeLine | None) -> Evidence:
        """Build with a place, if known."""
        return cls(text) if place is None else cls(text, place.file, place.line)


@dataclass(frozen=True, slots=True)
class Finding:
    """A performance problem: its place, its cost per iteration and the what-if that removes it.

    ``file`` is empty and ``line`` 0 if no line of the user's code was found. ``cost_ms`` is the predicted or the
    maximum saving; 0 if the problem does not affect time, or if unknown. ``whatif`` is written as the user types it
    (``num_workers``, ``batch_size=64``).
    """

    code: str
    title: str
    file: str
    line: int
    cost_ms: float
    whatif: str | None
    evidence: tuple[Evidence, ...] = ()
    cell: str = ""
    """In a notebook, the place as its reader knows it, such as ``In [7]:3``. The report fills it in."""

    @classmethod
    def at(
        cls,
        code: str,
        title: str,
        place: CodeLine | None,
        cost_ms: float,
        whatif: str | None = None,
        evidence: tuple[Evidence, ...] = (),
    ) -> Finding:
        """Build with a place, if known."""
        file, line = ("", 0) if place is None else (place.file, place.line)
        return cls(code, title, file, line, cost_ms, whatif, evidence)


class Rule(Protocol):
    """A rule for one kind of problem. A module of this package defines it and binds it to ``RULE``."""

    @property
    def code(self) -> str:
        """``SKY`` and three digits; the first digit is the group."""
        ...

    def check(self, subject: Subject) -> Finding | None:
        """The finding if this script has the problem; None otherwise, or if the necessary facts are unknown."""
        ...


class JobRule(Protocol):
    """A rule for processes that train together; bound to ``JOB_RULE``."""

    @property
    def code(self) -> str:
        """The code, as for a ``Rule``: ``SKY5`` and two digits."""
        ...

    def check_job(self, job: Job) -> Finding | None:
        """The finding if this job has the problem."""
        ...
