from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from skyline.interval import Interval
from skyline.memory.peak import (
    Fit,
    MemoryBreakdown,
    activation_bytes,
    batch_tensors,
    fit,
    peak_breakdown,
    replay,
)
from skyline.trace.facts import MemoryFact
from skyline.trace.record import Allocation, Phase

MB = 1_000_000


def test_the_peak_is_found_by_going_back_from_the_end(profile):
    # Alive at the end: 41 MB. At the peak the batch (4) and the activations (30) were alive as well.
    assert replay(profile.memory, profile.trace.allocations) == MemoryBreakdown(
        10 * MB, 10 * MB, 20 * MB, 30 * MB, 5 * MB
    )


def test_old_gradients_count_until_they_are_freed():
    end = MemoryFact(10, 10, 0, 0)
    # A large block in forward work while last iteration's gradients (10) are still there.
    allocations = (
        Allocation(1, 50, 1, Phase.FORWARD),
        Allocation(2, -50, 1, Phase.FORWARD),
        Allocation(3, -10, 99, Phase.OTHER),
        Allocation(4, 10, 2, Phase.BACKWARD),
    )
    assert replay(end, allocations) == MemoryBreakdown(10, 10, 0, 50, 0)


def test_without_allocations_the_peak_is_what_is_alive(profile):
    assert replay(profile.memory, ()).total == 41 * MB


@pytest.mark.parametrize("reported", [1 * MB, 45 * MB, 75 * MB, 200 * MB])
def test_the_parts_sum_to_the_reported_peak(profile, reported):
    parts = peak_breakdown(replace(profile, peak_bytes=reported))
    assert parts.total == reported
    assert all(part >= 0 for part in astuple(parts))


def test_activations_are_what_forward_work_keeps_for_backward_work(profile):
    assert activation_bytes(profile.trace) == {1: 30 * MB}


def test_batch_bytes_are_what_loading_leaves(profile):
    assert batch_tensors(profile.trace) == (4 * MB,)


def test_fit_knows_when_it_cannot_tell():
    assert fit(Interval(50, 40, 60), 100) is Fit.FITS
    assert fit(Interval(99, 80, 101), 100) is Fit.UNSURE
    assert fit(Interval(120, 101, 130), 100) is Fit.TOO_LARGE
    assert fit(Interval.exact(10**15), None) is Fit.FITS
