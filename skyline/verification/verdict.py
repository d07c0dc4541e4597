"""Validity of a trial, by the script compared with itself and by the load of other programs."""

from __future__ import annotations

from skyline.interval import Interval, bootstrap
from skyline.lazy_dataclass import dataclass
from skyline.trace.trial import Trial

NULL_TOLERANCE = 0.05
"""Largest deviation from 1 of the script compared with itself."""
_WIDEST_NULL = 0.10
"""Largest half-width of its interval; beyond it the rounds scatter too much."""
_MOST_OTHERS = 0.25
"""Largest share of the machine's cores in use by other programs."""
LEAST_ROUNDS = 4
_AGAIN = "Close other programs and verify it again"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The two ratios with their intervals; ``reason`` is empty if they are valid, ``hint`` is the next step."""

    ratio: Interval
    null: Interval
    others_cores: float
    reason: str = ""
    hint: str = ""

    @property
    def valid(self) -> bool:
        """True if the measurement is accurate enough for the prediction."""
        return not self.reason


def judge(trial: Trial, cores: int) -> Verdict:
    """The verdict on a trial of at least one round, on a machine with ``cores`` cores."""
    ratio, null = bootstrap(trial.ratios), bootstrap(trial.null)
    reason, hint = _objection(len(trial.ratios), null, trial.others_cores, cores)
    return Verdict(ratio, null, trial.others_cores, reason, hint)


def _objection(count: int, null: Interval, others: float, cores: int) -> tuple[str, str]:
    if count < LEAST_ROUNDS:
        return (
            f"too few rounds: {count} of the {LEAST_ROUNDS} needed",
            "Allow more time with --minutes.",
        )
    if others > _MOST_OTHERS * cores:
        return f"noisy: other programs kept {others:.1f} of {cores} cores busy", f"{_AGAIN}."
    if (
        null.low > 1 + NULL_TOLERANCE
        or null.high < 1 - NULL_TOLERANCE
        or abs(null.value - 1) > NULL_TOLERANCE
    ):
        said = f"{null.value:.3f} ({null.low:.3f} to {null.high:.3f})"
        return (
            f"noisy: the script compared with itself was {said}, not within {NULL_TOLERANCE:.0%} of 1",
            f"{_AGAIN}. If the result persists, the script's processes differ from each other by themselves.",
        )
    if null.half_width > _WIDEST_NULL:
        return (
            f"noisy: the script compared with itself scattered from {null.low:.3f} to {null.high:.3f}",
            f"{_AGAIN}, or in more rounds (--rounds {count * 2}).",
        )
    return "", ""
