"""The ratio of a pair of processes from its rounds, by the load of other programs.

Another program on one of two cores makes an iteration twice to ten times as long. Turns of one round are neighbours
and share most of that, so their ratio suffers less than either time. Rounds without any such load are better still.
The load selects them and not the time: the script's own slow iterations stay in.
"""

from __future__ import annotations

from collections.abc import Sequence

from skyline.capture.turns import Round
from skyline.interval import median
from skyline.lazy_dataclass import dataclass

CALM_SHARE = 0.05
"""Most of the machine's cores that others use in a turn of a calm round.

Skyline itself uses 0.03 to 0.1 of two cores, a busy program 0.2 and more (``benchmarks/process_pairs.py``)."""


@dataclass(frozen=True, slots=True)
class PairTimes:
    """The changed script's iteration time over that of the base, that of the base, and the number of calm rounds."""

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
    """Most cores that other programs used in one of the turns."""
    return max(turn.others_cores for turn in (one.base, one.again, *one.variants) if turn is not None)
