"""What an iteration of the script takes in another manner: on other threads, in another number format."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.trace.phase import Phase

AS_IT_STANDS = ""
"""The number format of a trial that leaves the script's own."""


@dataclass(frozen=True, slots=True)
class OpTiming:
    """One operator of an iteration, or a stretch of loading, and what it took in the middle of a few iterations.

    ``module`` is the path of the module that it ran in, empty outside any.
    """

    name: str
    phase: Phase
    module: str
    took_us: float


@dataclass(frozen=True, slots=True)
class IterationTrial:
    """A few iterations of the script's own, recorded one after another on ``threads`` threads.

    With a ``number_format`` the forward passes ran under autocast in it. ``works`` are in the order of an iteration;
    ``python_us`` is the interpreter's time between them, by phase. ``batch_size`` is None for the script's own.
    """

    threads: int
    number_format: str
    works: tuple[OpTiming, ...]
    python_us: dict[Phase, float]
    batch_size: int | None = None

    @property
    def took_us(self) -> float:
        """A whole iteration."""
        return sum(work.took_us for work in self.works) + sum(self.python_us.values())
