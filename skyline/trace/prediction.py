"""The basis of the times in a predicted profile."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.interval import Interval


@dataclass(frozen=True, slots=True)
class Prediction:
    """The basis of a predicted profile.

    ``gpu`` is the predicted GPU, ``basis`` the end of the sentence "times rest on …". ``iteration_ms`` includes the
    uncertainty of the operators and of the host. ``unmeasured_share`` is the share of the GPU time in operators whose
    kind or number format was never measured. ``largest_batch`` is the largest batch size that should fit into the GPU's
    memory; None if unknown. It was itself traced if ``largest_batch_traced``; larger ones were not tried if
    ``larger_untried``.
    """

    gpu: str
    predictor: str
    basis: str
    iteration_ms: Interval
    unmeasured_share: float
    largest_batch: int | None = None
    largest_batch_traced: bool = False
    larger_untried: bool = False
    without_loading: str = ""
    """Reason why the time to load batches is left out; empty if it is included or none are loaded."""
    loading: str = ""
    """The basis of the time to load batches, as a sentence; empty if it is left out or none are loaded."""
