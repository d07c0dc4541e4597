"""One point of a sweep: the figures of an iteration with these values."""

from __future__ import annotations

from enum import Enum

from skyline.analysis.gpu_costs import samples_of
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import fit, usable_elsewhere
from skyline.predict.gpu_spec import GpuSpec
from skyline.source.number_place import Number
from skyline.sweep.work import IterationWork, work_of
from skyline.trace.profile import Profile

Values = tuple[Number, ...]
"""One number for each setting of the sweep, in their order."""


class Provenance(str, Enum):
    """The origin of the time of a point."""

    MEASURED = "measured"
    """The script ran here with these values."""
    INTERPOLATED = "interpolated"
    """The script ran with other values, and the time follows from theirs."""
    PREDICTED = "predicted"
    """Nothing ran: the time follows from shapes alone."""


@dataclass(frozen=True, slots=True)
class TimePart:
    """A part of a predicted iteration whose errors agree: operators of one kind, the host, or reading data."""

    kind: str
    time_ms: Interval


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """The figures at some values. None for a figure that the run did not show.

    ``fits`` is empty for a measured point, which did fit. ``parts`` are the parts of a time that was
    predicted for a processor.
    """

    values: Values
    iteration_ms: Interval
    samples: int | None = None
    peak_bytes: int | None = None
    fits: str = ""
    work: IterationWork | None = None
    provenance: Provenance = Provenance.MEASURED
    parts: tuple[TimePart, ...] = ()

    @property
    def throughput(self) -> Interval | None:
        """Samples per second."""
        return self.iteration_ms.inverse(self.samples * 1e3) if self.samples else None

    @property
    def flop_per_s(self) -> float | None:
        """The rate of the counted arithmetic."""
        return self.work.flops / self.iteration_ms.value * 1e3 if self.work and self.work.flops else None

    @property
    def utilisation(self) -> float | None:
        """The rate of the counted arithmetic divided by the device's peak."""
        if self.work is None or self.work.ideal_ms is None:
            return None
        return self.work.ideal_ms / self.iteration_ms.value


@dataclass(frozen=True, slots=True)
class FailedPoint:
    """Values without figures, and the reason."""

    values: Values
    reason: str


def predicted_point(
    values: Values, profile: Profile, device: GpuSpec, parts: tuple[TimePart, ...] = ()
) -> SweepPoint:
    """The point of a predicted profile."""
    assert profile.prediction is not None
    usable = usable_elsewhere(device.memory_bytes)
    return SweepPoint(
        values,
        profile.prediction.iteration_ms,
        samples_of(profile),
        profile.peak_bytes,
        fit(Interval.exact(float(profile.peak_bytes)), usable).value,
        work_of(profile, device),
        Provenance.PREDICTED,
        parts,
    )
