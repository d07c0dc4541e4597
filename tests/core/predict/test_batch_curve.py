from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.graph.task import Part
from skyline.interval import Interval
from skyline.predict.batch_curve import batch_curve
from skyline.trace.record import Phase
from skyline.trace.trial import Choices, OpTiming, Trial, joined


def test_the_base_is_one_and_measured(profile):
    curve = batch_curve(profile)
    assert curve.ratio(16) == Interval.exact(1.0)
    assert curve.measured(16)
    assert not curve.extrapolated(16)


def test_points_carry_the_scatter_of_their_paired_ratios(profile):
    assert batch_curve(profile).ratio(8) == Interval(0.6, 0.6 * 0.99, 0.6 * 1.01)


def test_rounds_of_two_sittings_count_alike_and_other_configs_do_not(profile):
    smaller, larger = profile.trials
    operators = (OpTiming("aten::linear", Phase.FORWARD, "net", 900.0),)
    again = replace(smaller, ratios=(0.66,) * 9, operators=operators)
    narrow = replace(again, choices=Choices(8, number_format="bfloat16"), ratios=(0.1,) * 9)
    trials = joined((smaller, larger, again, narrow))
    assert [trial.choices.batch_size for trial in trials] == [8, 32, 8]
    assert trials[0].operators == operators
    ratio = batch_curve(replace(profile, trials=trials)).ratio(8)
    assert 0.6 < ratio.value < 0.66
    assert ratio.low <= ratio.value <= ratio.high == 0.66
    assert batch_curve(replace(profile, trials=(narrow,))).reason == "no other batch size was measured"


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
    smaller, larger = profile.trials
    curve = batch_curve(replace(profile, trials=(smaller, replace(larger, peak_bytes=120 * 10**6))))
    assert curve.growth is None
    assert curve.peak_bytes(24).value == pytest.approx((75e6 + 120e6) / 2)
    assert curve.peak_bytes(64).value == pytest.approx(120e6 + 2 * 45e6)


def test_memory_of_a_size_whose_times_alone_were_measured_is_predicted(profile):
    smaller, larger = profile.trials
    timed = replace(larger, peak_bytes=None)
    curve, known = batch_curve(replace(profile, trials=(smaller, timed))), batch_curve(profile)
    assert curve.measured(32)
    assert curve.ratio(32) == known.ratio(32)
    assert curve.peak_bytes(32).value == pytest.approx(109e6)
    assert curve.peak_bytes(8) == known.peak_bytes(8)
    alone = batch_curve(replace(profile, trials=(timed,))).peak_bytes(32)
    assert alone.value == pytest.approx(109e6)
    assert (alone.low, alone.high) == (curve.peak_bytes(16).value, 2 * curve.peak_bytes(16).value)


def test_without_other_points_nothing_else_is_known(profile):
    curve = batch_curve(replace(profile, trials=()))
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
    ratios = (3.0, 3.1, 5.9, 6.0, 3.2, 6.1)
    disturbed = Trial(Choices(batch_size=64), profile.times, ratios, peak_bytes=10)
    notes = batch_curve(replace(profile, trials=(*profile.trials, disturbed))).notes
    assert len(notes) == 1
    assert notes[0].startswith("batch size 64")
