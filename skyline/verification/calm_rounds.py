"""The ratio of a pair of processes from its rounds, selected by the load of other programs.

Another program on one of two cores makes an iteration take twice to ten times as long. The turns of one round
are adjacent and share most of that load, so their ratio suffers less than either time. Rounds without such
load are even better. They are selected by the load and not by the time, so the script's own slow iterations
remain.
"""

from __future__ import annotations

from collections.abc import Sequence

from skyline.capture.turns import Round
from skyline.interval import median
from skyline.lazy_dataclass import dataclass

CALM_SHARE = 0.05
"""Largest share of the machine's cores that other programs may use in a turn of a calm round.

Skyline itself uses 0.03 to 0.1 of two cores, a busy program 0.2 and more (``benchmarks/process_pairs.py``)."""


@dataclass(frozen=True, slots=True)
class PairTimes:
    """The ratio of the changed script's iteration time to the base's, the base's time, and the count of calm rounds."""

    ratio: float
    base_ms: float
    calm: int

    @classmethod
    def of(cls, rounds: Sequence[Round], cores: int, wanted: int) -> PairTimes:
        """The medians over the calm rounds if at least ``wanted`` are calm, else over all rounds."""
        calm = [one for one in rounds if _load(one) <= CALM_SHARE * cores]
        chosen = calm if len(calm) >= wanted else rounds
        return cls(
            median([ratio for one in chosen if (ratio := one.ratio()) is not None]),
            median([one.base_ms for one in chosen]),
            len(calm),
        )


def _load(one: Round) -> float:
    """The largest number of cores that other programs used in one of the turns."""
    return max(turn.others_cores for turn in (one.base, one.again, *one.variants) if turn is not None)
