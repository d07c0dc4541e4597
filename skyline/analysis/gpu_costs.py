"""Time, cost, energy and carbon dioxide of a pass over the data on a predicted GPU."""

from __future__ import annotations

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.predict.energy import energy_kwh, power_watts
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.prices import Price
from skyline.trace.profile import Profile
from skyline.trace.record import RecordKind, Trace

_ITERATIONS = 1000
"""Number of iterations for the costs if the size of the data set is unknown."""


@dataclass(frozen=True, slots=True)
class Span:
    """The amount of work of a cost figure: a number of samples, or of iterations if samples are not observable.

    ``epoch``: the samples are one pass over the training data. Otherwise they are the samples of ``iterations`` of the
    unchanged script.
    """

    epoch: bool
    samples: float | None
    iterations: float

    def iterations_of(self, profile: Profile) -> float:
        """The number of iterations at the batch size of ``profile``."""
        samples = samples_of(profile)
        return self.samples / samples if self.samples and samples else self.iterations


@dataclass(frozen=True, slots=True)
class GpuRunCost:
    """One batch size on one GPU. ``time_s`` to ``carbon_g`` are for a span of ``iterations``.

    ``busy_share`` is the share of the time in which a kernel runs; ``cost_usd`` is None without a known price.
    """

    batch_size: int | None
    iteration_ms: Interval
    throughput: Interval | None
    peak_bytes: int
    busy_share: float
    power_watts: Interval
    iterations: float
    time_s: Interval
    cost_usd: Interval | None
    energy_kwh: Interval
    carbon_g: Interval


def span_of(profile: Profile) -> Span:
    """An epoch if the training loader reported the size of its data set, else a thousand iterations."""
    samples = samples_of(profile)
    loader = max(profile.loaders, key=lambda one: one.fetches_per_iteration, default=None)
    if loader is not None and loader.dataset_size and loader.batch_size and loader.fetches_per_iteration > 0:
        iterations = loader.dataset_size / (loader.batch_size * loader.fetches_per_iteration)
        # An iteration may use each sample of a batch more than once, or split it: the loader's count applies.
        return Span(True, samples * iterations if samples else None, max(1.0, iterations))
    return Span(False, samples * _ITERATIONS if samples else None, _ITERATIONS)


def samples_of(profile: Profile) -> int | None:
    """Samples per iteration, if observable."""
    return profile.batch.samples_per_iteration or profile.batch_size


def run_on(
    profile: Profile, gpu: GpuSpec, span: Span, price: Price | None, grid_g_per_kwh: float
) -> GpuRunCost:
    """The figures of a predicted profile."""
    if profile.prediction is None:
        raise ValueError("the profile is not a prediction")
    iteration_ms = profile.prediction.iteration_ms
    samples = samples_of(profile)
    busy = busy_share(profile.trace) or 0.0
    power = power_watts(gpu, busy)
    iterations = span.iterations_of(profile)
    time_s = iteration_ms.scaled(iterations / 1e3)
    energy = energy_kwh(power, time_s)
    return GpuRunCost(
        profile.batch_size,
        iteration_ms,
        iteration_ms.inverse(samples * 1e3) if samples else None,
        profile.peak_bytes,
        busy,
        power,
        iterations,
        time_s,
        time_s.scaled(price.usd_per_gpu_hour / 3600) if price is not None else None,
        energy,
        energy.scaled(grid_g_per_kwh),
    )


def busy_share(trace: Trace) -> float | None:
    """The busy share of the first iteration: kernels of a traced script run one after the other; None if unknown."""
    mark = next(iter(trace.iterations), None)
    if mark is None or mark.end_us <= mark.start_us:
        return None
    busy_us = sum(
        record.duration_us
        for record in trace.records
        if record.kind is RecordKind.KERNEL and record.iteration == mark.index
    )
    return min(1.0, busy_us / (mark.end_us - mark.start_us))
