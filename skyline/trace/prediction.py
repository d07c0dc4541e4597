"""How the times of a profile came about that was never run."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.interval import Interval


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a predicted profile rests on.

    ``gpu`` is the GPU it speaks of, ``basis`` the end of the sentence "times rest on …". ``iteration_ms`` has the
    uncertainty of the operators and of the host in it. ``unmeasured_share`` is the share of the GPU time in
    operators of a kind or number format of which none was measured anywhere. ``largest_batch`` is the largest batch
    size that is believed to fit into the GPU's memory, None where that is not known; it was traced itself where
    ``largest_batch_traced``, and larger ones were not tried where ``larger_untried``.
    """

    gpu: str
    predictor: str
    basis: str
    iteration_ms: Interval
    unmeasured_share: float
    largest_batch: int | None = None
    largest_batch_traced: bool = False
    larger_untried: bool = False
