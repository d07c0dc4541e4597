"""Time and cost to train to the same loss at each batch size."""

from __future__ import annotations

from collections.abc import Sequence

from skyline.analysis.gpu_costs import samples_of
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import Fit, fit
from skyline.predict.noise_scale import NoiseScale
from skyline.trace.observed_training import ObservedTraining
from skyline.trace.profile import Profile
from skyline.whatif.question import CurvePoint


@dataclass(frozen=True, slots=True)
class Amount:
    """The training that the unchanged script would do. ``epochs`` is None if the size of the data set is unknown."""

    samples: float
    epochs: float | None


@dataclass(frozen=True, slots=True)
class TrainingTime:
    """The training at one batch size. ``samples_ratio`` is relative to the unchanged script. ``usd`` needs a price.

    ``batch_size`` is the number in the script, ``samples_per_step`` the number of samples of one optimizer
    step. ``time_s`` includes the measured costs outside the iterations.
    """

    batch_size: int
    samples_per_step: float
    throughput: Interval
    samples_ratio: Interval
    samples: Interval
    steps: Interval
    time_s: Interval
    usd: Interval | None
    peak_bytes: Interval
    fits: Fit
    measured: bool
    extrapolated: bool


def samples_of_epoch(profile: Profile) -> float | None:
    """Samples of a pass over the training data; None if the training loader has no data set with a length.

    Batches of an evaluation between two iterations do not count: an iteration takes a whole number of batches.
    """
    loader = max(profile.loaders, key=lambda one: one.fetches_per_iteration, default=None)
    per_step = samples_of(profile)
    if loader is None or not loader.dataset_size or not loader.batch_size or not loader.fetches_per_iteration:
        return None
    taken = loader.batch_size * max(1, round(loader.fetches_per_iteration))
    return per_step * loader.dataset_size / taken if per_step else None


def training_times(
    profile: Profile,
    curve: Sequence[CurvePoint],
    usable_bytes: int | None,
    noise: NoiseScale,
    amount: Amount,
    training: ObservedTraining | None,
    usd_per_hour: float | None,
) -> tuple[TrainingTime, ...]:
    """A row for each point of the curve."""
    size, per_step = profile.batch_size, samples_of(profile)
    if not size or not per_step:
        return ()
    micro_batches = per_step / size

    def row(point: CurvePoint) -> TrainingTime:
        batch = point.batch_size * micro_batches
        ratio = noise.relative_samples(batch, per_step)
        samples = ratio.scaled(amount.samples)
        computing = _divided(samples, point.throughput)
        fixed_s = training.startup_s + training.warming_s if training is not None else 0.0
        epoch_end_s = (training.epoch_end_s or 0.0) if training is not None else 0.0
        epochs = ratio.scaled(amount.epochs or 0.0)
        time_s = Interval(
            *(
                one + fixed_s + count * epoch_end_s
                for one, count in zip(_ends(computing), _ends(epochs), strict=True)
            )
        )
        return TrainingTime(
            point.batch_size,
            batch,
            point.throughput,
            ratio,
            samples,
            samples.scaled(1 / batch),
            time_s,
            time_s.scaled(usd_per_hour / 3600) if usd_per_hour is not None else None,
            point.peak_bytes,
            fit(point.peak_bytes, usable_bytes),
            point.measured,
            point.extrapolated,
        )

    return tuple(map(row, sorted(curve, key=lambda one: one.batch_size)))


def fastest(rows: Sequence[TrainingTime]) -> TrainingTime | None:
    """The row with the least time among those that fit; None if there are none."""
    return min(
        (one for one in rows if one.fits is not Fit.TOO_LARGE), key=lambda one: one.time_s.value, default=None
    )


def _ends(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high


def _divided(amount: Interval, rate: Interval) -> Interval:
    slowest = max(rate.low, rate.value / 1000)
    return Interval(amount.value / rate.value, amount.low / rate.high, amount.high / slowest)
