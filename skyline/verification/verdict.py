"""Whether rounds can be believed: what the script measured against itself says, and who else was computing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from skyline.interval import Interval
from skyline.verification.rounds import Round, bootstrap

NULL_TOLERANCE = 0.05
"""How far from one the script over itself may be."""
_WIDEST_NULL = 0.10
"""Half the width of its interval; beyond it the rounds scatter too much to say anything."""
_MOST_OTHERS = 0.25
"""The share of the machine's cores that other programs may keep busy."""
LEAST_ROUNDS = 4
_AGAIN = "Close other programs and verify it again"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The two ratios with their intervals; ``reason`` is empty where they count, and ``hint`` says what to do next."""

    ratio: Interval
    null: Interval
    others_cores: float
    reason: str = ""
    hint: str = ""

    @property
    def valid(self) -> bool:
        """Whether the measurement says something about the prediction."""
        return not self.reason


def judge(rounds: Sequence[Round], cores: int) -> Verdict:
    """The verdict on some rounds, of which there is one at least, on a machine with so many cores."""
    ratio, null = bootstrap([each.ratio for each in rounds]), bootstrap([each.null for each in rounds])
    others = median([each.others_cores for each in rounds])
    reason, hint = _objection(len(rounds), null, others, cores)
    return Verdict(ratio, null, others, reason, hint)


def _objection(count: int, null: Interval, others: float, cores: int) -> tuple[str, str]:
    if count < LEAST_ROUNDS:
        return (
            f"too few rounds: {count} of {LEAST_ROUNDS} that are needed",
            "Allow more time with --minutes.",
        )
    if others > _MOST_OTHERS * cores:
        return f"noisy: other programs kept {others:.1f} of {cores} cores busy", f"{_AGAIN}."
    if null.low > 1 + NULL_TOLERANCE or null.high < 1 - NULL_TOLERANCE or _off(null.value):
        said = f"{null.value:.3f} ({null.low:.3f} to {null.high:.3f})"
        return (
            f"noisy: the script against itself was {said}, not within {NULL_TOLERANCE:.0%} of 1",
            f"{_AGAIN}. Where it stays so, the script's processes differ from each other by themselves.",
        )
    if null.half_width > _WIDEST_NULL:
        return (
            f"noisy: the script against itself scattered from {null.low:.3f} to {null.high:.3f}",
            f"{_AGAIN}, or in more rounds (--rounds {count * 2}).",
        )
    return "", ""


def _off(null: float) -> bool:
    return abs(null - 1) > NULL_TOLERANCE
