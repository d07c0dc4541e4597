"""Profiles of the previous format, ``skyline.capture/1``, with three forms of trials."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from skyline.trace.bare_times import BareTimes
from skyline.trace.phase import Phase
from skyline.trace.profile import CAPTURE_SCHEMA, Profile
from skyline.trace.trial import Choices, OpTiming, Trial, joined

OLDER_SCHEMA = "skyline.capture/1"
_NO_TIMES = BareTimes((), (), (), ())


@dataclass(frozen=True, slots=True)
class _Point:
    """A batch size of the curve."""

    batch_size: int
    times: BareTimes
    ratios: tuple[float, ...]
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class _IterationTrial:
    """Recorded iterations in another config."""

    threads: int
    number_format: str
    works: tuple[OpTiming, ...]
    python_us: dict[Phase, float]
    batch_size: int | None = None


@dataclass(frozen=True, slots=True)
class _Older:
    """The fields that the current format no longer has."""

    points: tuple[_Point, ...] = ()
    iteration_trials: tuple[_IterationTrial, ...] = ()


def read_older(data: bytes) -> Profile:
    """Convert a profile of the previous format to the current one.

    Raises the exceptions of the decoder.
    """
    older, profile = msgspec.json.decode(data, type=_Older), msgspec.json.decode(data, type=Profile)
    threads = profile.environment.intraop_threads
    sizes = (
        Trial(Choices(batch_size=one.batch_size), one.times, one.ratios, peak_bytes=one.peak_bytes)
        for one in older.points
        if one.batch_size != profile.batch_size
    )
    configs = (
        Trial(
            Choices(one.batch_size, None if one.threads == threads else one.threads, one.number_format),
            _NO_TIMES,
            operators=one.works,
            python_us=one.python_us,
        )
        for one in older.iteration_trials
    )
    return replace(profile, schema=CAPTURE_SCHEMA, trials=joined((*sizes, *configs)))
