"""A variant of the script, measured in turns with the script unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from skyline.trace.bare_times import BareTimes


@dataclass(frozen=True, slots=True)
class Choices:
    """How a variant differs from the script. None, 0 and the empty text stand for the script's own value.

    ``change`` describes an edit of the source.
    """

    batch_size: int | None = None
    change: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """One variant of the script, run in turns with the script unchanged.

    ``times`` are the iterations of all turns. ``ratios`` has one value for each round: the variant's iteration time
    over that of the unchanged script, which runs before and after it. ``null`` has the unchanged script over itself in
    the same rounds: 1 on a steady machine. ``peak_bytes`` is the peak of live tensor memory in an iteration, None
    where the script ended too soon to be recorded. ``others_cores`` is how many cores other programs kept busy.
    """

    choices: Choices
    times: BareTimes
    ratios: tuple[float, ...]
    null: tuple[float, ...] = ()
    peak_bytes: int | None = None
    others_cores: float = 0.0

    @property
    def step_ms(self) -> float:
        """The typical iteration in ms."""
        return median(self.times.steps_ms)
