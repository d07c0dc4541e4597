"""What a finding is, and what a rule that looks for one is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from skyline.whatif.baseline import Baseline


@dataclass(frozen=True, slots=True)
class Finding:
    """A performance problem, where it is, what it costs per iteration and which what-if would cure it.

    ``file`` is empty and ``line`` 0 where no line of the person's could be found for it.
    """

    code: str
    title: str
    file: str
    line: int
    cost_ms: float
    whatif: str | None


class Rule(Protocol):
    """One kind of problem. A module of this package defines it and binds it to ``RULE``."""

    code: str

    def check(self, baseline: Baseline) -> Finding | None:
        """The problem, if this script has it."""
        ...
