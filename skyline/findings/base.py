"""What a finding is, and what a rule that looks for one is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from skyline.job.job import Job
from skyline.trace.record import CodeLine
from skyline.whatif.subject import Subject


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that speaks for a finding, in words, and the line it is about (empty and 0: none in particular)."""

    text: str
    file: str = ""
    line: int = 0

    @classmethod
    def at(cls, text: str, place: CodeLine | None) -> Evidence:
        """With its place where that is known."""
        return cls(text) if place is None else cls(text, place.file, place.line)


@dataclass(frozen=True, slots=True)
class Finding:
    """A performance problem, where it is, what it costs per iteration and which what-if would cure it.

    ``file`` is empty and ``line`` 0 where no line of the person's could be found for it. ``cost_ms`` is what a cure
    could save at most, or is predicted to save; 0 where that is not a matter of time, or not known. ``whatif`` is a
    what-if as it is typed (``num_workers``, ``batch_size=64``).
    """

    code: str
    title: str
    file: str
    line: int
    cost_ms: float
    whatif: str | None
    evidence: tuple[Evidence, ...] = ()

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
        """With its place where that is known."""
        file, line = ("", 0) if place is None else (place.file, place.line)
        return cls(code, title, file, line, cost_ms, whatif, evidence)


class Rule(Protocol):
    """One kind of problem. A module of this package defines it and binds it to ``RULE``."""

    @property
    def code(self) -> str:
        """``SKY`` and three digits, the first of which is the group."""
        ...

    def check(self, subject: Subject) -> Finding | None:
        """The problem, if this script has it: None as well where the facts that would tell are not known."""
        ...


class JobRule(Protocol):
    """One kind of problem of processes that train together; bound to ``JOB_RULE``."""

    @property
    def code(self) -> str:
        """As of a ``Rule``: ``SKY5`` and two digits."""
        ...

    def check_job(self, job: Job) -> Finding | None:
        """The problem, if this job has it."""
        ...
