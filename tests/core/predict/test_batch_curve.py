from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.graph.part import Part
from skyline.interval import Interval
from skyline.predict.batch_curve import batch_curve
from skyline.trace.iteration_trial import IterationTrial, OpTiming
from skyline.trace.phase import Phase
from skyline.trace.profile import BatchPoint


def test_the_base_is_one_and_measured(profile):
    curve = batch_curve(profile)
    assert curve.ratio(16) == Interval.exact(1.0)
    assert curve.measured(16)
    assert not curve.extrapolated(16)


def test_points_carry_the_scatter_of_their_paired_ratios(profile):
    assert batch_curve(profile).ratio(8) == Interval(0.6, 0.6 * 0.99, 0.6 * 1.01)


def tried(batch_size, took_us, *, threads=2, number_format=""):
    work = OpTiming("aten::linear", Phase.FORWARD, "net", took_us - 100.0)
    return IterationTrial(threads, number_format, (work,), {Phase.FORWARD: 100.0}, batch_size)


def test_a_size_that_was_measured_again_lies_between_both(profile):
    trials = (
        tried(None, 10_000.0),
        tried(None, 19_000.0, threads=1),
        tried(8, 6_600.0),
        tried(8, 1_000.0, number_format="bfloat16"),
        # Something else was under way: a point that far off was not measured.
        tried(32, 30_000.0),
    )
    curve = batch_curve(replace(profile, iteration_trials=trials))
    middle = (0.6 * 0.66) ** 0.5
    assert curve.ratio(8) == Interval(middle, 0.6 * 0.99, middle)
    assert curve.ratio(32) == batch_curve(profile).ratio(32)


def test_parts_scale_by_their_own_factors_and_sum_to_the_whole(profile):
    curve = batch_curve(profile)
    for size in (8, 20, 32, 64):
        factors = curve.part_factors(size)
        shares = {Part.LOADER: 0.2, Part.BACKWARD: 0.3, Part.OPTIMIZER: 0.2, Part.REST: 0.3}
        assert sum(factors[part] * share for part, share in shares.items()) == pytest.approx(
            curve.ratio(size).value
        )
        assert factors[Part.OPTIMIZER] == pytest.approx(1.0)
        assert factors[Part.LOADER] == pytest.approx(size / 16)


def test_memory_is_exact_where_measured_and_goes_along_with_the_allocations_elsewhere(profile):
    """At four times the batch a tensor of the forward pass that is soon given back is part of the peak."""
    curve = batch_curve(profile)
    assert curve.peak_bytes(32) == Interval.exact(109e6)
    assert curve.peak_bytes(24).value == pytest.approx(92e6)
    beyond = curve.peak_bytes(64)
    assert beyond.value == pytest.approx(187e6)
    assert beyond.low < 177e6 < beyond.high


def test_memory_lies_on_lines_where_the_allocations_do_not_explain_what_was_measured(profile):
    points = [
        replace(point, peak_bytes=120 * 10**6) if point.batch_size == 32 else point
        for point in profile.points
    ]
    curve = batch_curve(replace(profile, points=tuple(points)))
    assert curve.growth is None
    assert curve.peak_bytes(24).value == pytest.approx((75e6 + 120e6) / 2)
    assert curve.peak_bytes(64).value == pytest.approx(120e6 + 2 * 45e6)


def test_without_other_points_nothing_else_is_known(profile):
    curve = batch_curve(replace(profile, points=()))
    assert curve.reason == "no other batch size was measured"
    assert curve.knows(16)
    assert not curve.knows(32)
    with pytest.raises(ValueError, match="no other batch size"):
        curve.ratio(32)


def test_without_a_batch_size_nothing_is_known(profile):
    curve = batch_curve(replace(profile, batch_size=None))
    assert not curve.knows(16)
    assert "not found" in curve.reason


def test_a_disturbed_point_is_named(profile):
    disturbed = BatchPoint(64, profile.times, (3.0, 3.1, 5.9, 6.0, 3.2, 6.1), 10)
    notes = batch_curve(replace(profile, points=(*profile.points, disturbed))).notes
    assert len(notes) == 1
    assert notes[0].startswith("batch size 64")
