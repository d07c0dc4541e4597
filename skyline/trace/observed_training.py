"""Facts of a stretch of the script's own training, and the goal of the whole: gradients, costs, samples."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass
from skyline.trace.record import CodeLine


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
class ObservedSave:
    """A call of ``torch.save`` after so many iterations; ``size_bytes`` is 0 if unknown, ``line`` is the caller's."""

    iteration: int
    seconds: float
    size_bytes: int
    line: CodeLine | None = None


@dataclass(frozen=True, slots=True)
class TrainingGoal:
    """The training that the script as it is would do, from ``source``.

    ``usd_per_hour`` is None without a price, ``noise_scale`` None unless the user gave one.
    """

    samples: float
    usd_per_hour: float | None = None
    noise_scale: float | None = None
    source: str = ""


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
    saves: tuple[ObservedSave, ...] = ()
    """The calls of ``torch.save``, in order; their files went to the run's scratch folder."""
    around_saves_s: float = 0.0
    """The time that an iteration with saves takes beyond one without, and beyond the calls of ``torch.save``."""
