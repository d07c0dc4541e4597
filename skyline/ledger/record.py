"""Accuracy of predictions of one kind in past verifications: size and direction of the errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from skyline.interval import median
from skyline.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from skyline.ledger.ledger import Conditions, LedgerEntry

LEAST_FOR_CORRECTION = 4
"""Least number of verifications for a correction."""
_PRIOR_WEIGHT = 2.0
"""The number of imaginary error-free verifications in the average, so that few data have little influence."""
_BROAD = 0.8
"""The share of the cases within the spread."""
_CONSISTENT = 1.4826
"""Standard deviation over median absolute deviation of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Correction:
    """The typical ratio of measured to predicted iteration time; displayed with a prediction, never applied to it."""

    factor: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class TrackRecord:
    """Accuracy of predictions for a what-if or a combination, on one machine and version of PyTorch.

    Errors are relative to the measured iteration time: 0.05 means predicted 5 % too long. ``within`` is the smallest
    bound on the error of ``inside`` of the ``cases``, which is four fifths of them.
    """

    whatif: str
    cases: int
    scripts: int
    median_error: float
    within: float
    inside: int
    held: int
    """Number of cases whose measurement was within the predicted interval."""
    discarded: int
    correction: Correction | None = None


def track_record(entries: Iterable[LedgerEntry], whatif: str, machine: Conditions) -> TrackRecord | None:
    """The record of a what-if on a machine; None without measurements there."""
    here = [entry for entry in entries if entry.whatif == whatif and entry.machine.same_as(machine)]
    counting = [entry for entry in here if entry.counts and entry.error is not None]
    if not counting:
        return None
    errors = [entry.error for entry in counting if entry.error is not None]
    sizes = sorted(map(abs, errors))
    inside = max(1, math.ceil(_BROAD * len(sizes)))
    return TrackRecord(
        whatif=whatif,
        cases=len(counting),
        scripts=len({entry.script for entry in counting}),
        median_error=median(errors),
        within=sizes[inside - 1],
        inside=inside,
        held=sum(1 for entry in counting if entry.held),
        discarded=sum(1 for entry in here if entry.status.value == "discarded"),
        correction=correction(
            [
                entry.measurement.ratio / entry.predicted.ratio
                for entry in counting
                if entry.measurement is not None
            ]
        ),
    )


def track_records(entries: Sequence[LedgerEntry]) -> list[tuple[Conditions, TrackRecord]]:
    """The record of every what-if on every machine in the entries."""
    found: list[tuple[Conditions, TrackRecord]] = []
    for entry in entries:
        known = any(
            record.whatif == entry.whatif and machine.same_as(entry.machine) for machine, record in found
        )
        record = None if known else track_record(entries, entry.whatif, entry.machine)
        if record is not None:
            found.append((entry.machine, record))
    return found


def correction(measured_over_predicted: Sequence[float]) -> Correction | None:
    """The factor between prediction and measurement; None for fewer than four cases.

    It is the median of the logarithms, which is robust against a single outlier. It is shrunk towards no correction as
    if two error-free cases had been seen as well: ``n / (n + 2)`` of it for ``n`` cases. The range is the median
    absolute deviation, converted to a standard deviation, plus the uncertainty of the median.
    """
    if len(measured_over_predicted) < LEAST_FOR_CORRECTION:
        return None
    logs = [math.log(value) for value in measured_over_predicted]
    count, middle = len(logs), median(logs)
    shrunk = middle * count / (count + _PRIOR_WEIGHT)
    spread = _CONSISTENT * median([abs(value - middle) for value in logs])
    # The standard error of a median is 1.25 times that of a mean.
    sigma = math.hypot(spread, 1.25 * spread / math.sqrt(count))
    return Correction(math.exp(shrunk), math.exp(shrunk - sigma), math.exp(shrunk + sigma))
