"""The rate of a CPU in narrow products, from products of the script that were tried whole and split."""

from __future__ import annotations

from math import log

from skyline.interval import Interval, median
from skyline.trace.profile import Profile
from skyline.trace.trial import SplitTrial
from skyline.whatif.constant import EPYC, XEON, Constant

HALF_RATE = Constant(
    20.0, 8.0, 64.0,
    "benchmarks/factored_layers.py: the narrowest side with which a product reaches half of the rate; 32 on one busy "
    "core of a Xeon, 10 to 23 on two cores of an EPYC",
    machine=f"{XEON}; {EPYC}",
)  # fmt: skip
_OTHERS = Constant(1.0, 0.7, 1.4, "an assumption: products of other sizes than the tried ones, over these")
_SIDES = Constant(
    HALF_RATE.value, 1.0, 256.0,
    "an assumption: beyond these the threads or the caches decide how fast a product is, and not its narrowest side",
)  # fmt: skip


def half_rate(profile: Profile, narrowest: int, *, back: bool) -> Interval:
    """The narrowest side with which a product reaches half of the rate, in numbers, for one pass of the script.

    It comes from the script's own products if these were tried: from those with the nearest narrowest side,
    because libraries may compute narrower products in another way.
    """
    trials = [one for one in profile.split_trials if one.threads is None]
    if not trials:
        return HALF_RATE
    sides = {_narrowest(one) for one in trials}
    nearest = min(sides, key=lambda side: abs(log(side / narrowest)))
    found = sorted(_half_rate(one, back=back) for one in trials if _narrowest(one) == nearest)
    return Interval(median(found), _OTHERS.low * found[0], _OTHERS.high * found[-1])


def _narrowest(trial: SplitTrial) -> int:
    return min(trial.rows, trial.rank)


def _half_rate(trial: SplitTrial, *, back: bool) -> float:
    """The half-rate side of one trial: time grows with operations x (1 + half / narrowest side) (Hockney, 1982)."""
    whole_us, split_us = trial.backward_us if back else trial.forward_us
    ratio = split_us / whole_us
    whole = trial.inner * trial.columns
    split = trial.rank * (trial.inner + trial.columns)
    # The change of both sides of the equation if the half-rate side grows by one.
    slower = split / _narrowest(trial) - ratio * whole / min(trial.rows, trial.inner, trial.columns)
    return min(_SIDES.high, max(_SIDES.low, (ratio * whole - split) / slower)) if slower > 0 else _SIDES.high
