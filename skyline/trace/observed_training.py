"""Facts about the first part of a script's training, and the goal of the whole: gradients, costs, samples."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass
from skyline.trace.record import CodeLine


@dataclass(frozen=True, slots=True)
class GradientSample:
    """The gradients of some iterations at the same weights, as inner products.

    ``iteration`` is the number of iterations before them, ``updates`` the number of iterations that changed
    the weights. ``loss`` is their mean loss; None if ``backward`` was not called on a single number. Each
    gradient covers ``ObservedTraining.samples`` samples.
    """

    iteration: int
    updates: int
    products: tuple[tuple[float, ...], ...]
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class ObservedSave:
    """A call of ``torch.save`` after this many iterations. ``size_bytes`` is 0 if unknown, ``line`` is the caller's."""

    iteration: int
    seconds: float
    size_bytes: int
    line: CodeLine | None = None


@dataclass(frozen=True, slots=True)
class TrainingGoal:
    """The whole training of the unchanged script, as known from ``source``.

    ``usd_per_hour`` is None without a price. ``noise_scale`` is None unless the user gave one.
    """

    samples: float
    usd_per_hour: float | None = None
    noise_scale: float | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class ObservedTraining:
    """The start of a training, with ``gradients`` measured in between.

    ``startup_s`` is the time until the end of the first iteration. ``warming_s`` is the time that the
    warm-up's iterations took in excess of a typical one, for example for compiling. ``epoch_end_s`` is the
    time at the end of an epoch in excess of an iteration: validation, checkpoint, restarted loaders. It is
    None if no epoch ended or its length is unknown.
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
    """True if the script ended within the observed time."""
    saves: tuple[ObservedSave, ...] = ()
    """The calls of ``torch.save``, in order. Their files went to the run's scratch folder."""
    around_saves_s: float = 0.0
    """The extra time of an iteration with saves, without the calls of ``torch.save`` themselves."""
