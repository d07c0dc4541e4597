"""Facts of a stretch of the script's own training: gradients at fixed weights, and costs outside the iterations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GradientSample:
    """The gradients of some iterations at the same weights, by their inner products.

    ``iteration`` is the number of iterations before them, ``updates`` of those that changed the weights. ``loss`` is
    their mean; None if ``backward`` was not called on a single number. Each gradient is that of
    ``ObservedTraining.samples`` samples.
    """

    iteration: int
    updates: int
    products: tuple[tuple[float, ...], ...]
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class ObservedTraining:
    """Training for a while from the start, with ``gradients`` measured in between.

    ``startup_s`` is the time until the end of the first iteration. ``warming_s`` is the time that the iterations of the
    warm-up took beyond the typical one, such as compiling. ``epoch_end_s`` is the time at the end of an epoch beyond an
    iteration: validation, checkpoint, restarted loaders; None if no epoch ended, or its length is unknown.
    """

    samples: int
    gradients: tuple[GradientSample, ...]
    iterations: int
    iteration_ms: float
    startup_s: float
    warming_s: float
    epoch_end_s: float | None
    replayed_evaluations: int = 0
    ended: bool = False
    """True if the script came to its end in that time."""
