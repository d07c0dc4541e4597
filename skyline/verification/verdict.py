"""Whether a trial can be believed: by the script measured against itself, and by the load of other programs."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.interval import Interval
from skyline.spread import bootstrap
from skyline.trace.trial import Trial

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


def judge(trial: Trial, cores: int) -> Verdict:
    """The verdict on a trial of at least one round, on a machine with so many cores."""
    ratio, null = bootstrap(trial.ratios), bootstrap(trial.null)
    reason, hint = _objection(len(trial.ratios), null, trial.others_cores, cores)
    return Verdict(ratio, null, trial.others_cores, reason, hint)


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
