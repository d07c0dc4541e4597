"""Work that a change puts in the place of recorded operators."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReplacedWork:
    """The work that a change put in the place of a recorded operator, or added to it.

    ``part`` is its parallel share of the time on one thread. ``share`` is its share of the task's time.
    ``with_call`` is true if its time includes the call of the operator.
    """

    part: float
    share: float = 1.0
    with_call: bool = True
