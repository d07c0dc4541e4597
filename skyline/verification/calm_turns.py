"""The iteration times of a pair of processes from the turns in which other programs did least.

Another program on one of two cores makes an iteration twice to ten times as long, and such loads last longer than a
turn: they hit one side of a round and spare the other. Each turn knows how much processor time others used in it. A
selection by that leaves the script's own slow iterations in, as a selection by time would not.
"""

from __future__ import annotations

from collections.abc import Sequence

from skyline.capture.turns import Round, Turn
from skyline.interval import median
from skyline.lazy_dataclass import dataclass

CALM_SHARE = 0.05
"""Most of the machine's cores that others may use in a calm turn.

Skyline itself uses 0.02 to 0.03 of two cores, the least load of a busy program beside it 0.2
(``benchmarks/process_pairs.py``)."""


@dataclass(frozen=True, slots=True)
class CalmTurns:
    """Iteration times of the base and of the changed script, and the number of calm turns of the one with fewer."""

    base_ms: float
    changed_ms: float
    calm: int

    @classmethod
    def of(cls, rounds: Sequence[Round], cores: int, wanted: int) -> CalmTurns:
        """The medians of the calm turns; of the ``wanted`` turns with the least load where fewer are calm."""
        base_ms, of_base = _side([turn for one in rounds for turn in _base_turns(one, rounds)], cores, wanted)
        changed = [turn for one in rounds for turn in one.variants if turn is not None]
        changed_ms, of_changed = _side(changed, cores, wanted)
        return cls(base_ms, changed_ms, min(of_base, of_changed))


def _base_turns(one: Round, rounds: Sequence[Round]) -> tuple[Turn, ...]:
    """The turn that closes a round opens the next one."""
    last = one is rounds[-1] and one.again is not None
    return (one.base, one.again) if last and one.again is not None else (one.base,)


def _side(turns: Sequence[Turn], cores: int, wanted: int) -> tuple[float, int]:
    ordered = sorted(turns, key=lambda turn: turn.others_cores)
    calm = sum(turn.others_cores <= CALM_SHARE * cores for turn in ordered)
    return median([turn.typical_ms for turn in ordered[: max(calm, wanted)]]), calm
