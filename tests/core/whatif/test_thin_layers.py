"""Layers with smaller weights on another number of threads, as they were tried there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.interval import Interval
from skyline.trace.trial import KroneckerTrial, SplitTrial
from skyline.whatif.cost.thin_layers import kronecker_parts, split_parts
from skyline.whatif.cost.thread_scaling import Division, _with_new_work, gained
from skyline.whatif.replaced_work import ReplacedWork

OWN, ONE = 2, 1


@pytest.fixture
def net(profile):
    return replace(profile, environment=replace(profile.environment, cpu_count=2, intraop_threads=OWN))


def split(rank, forward_us, backward_us, threads=None):
    return SplitTrial(64, 256, 128, rank, (0.0, forward_us), (0.0, backward_us), threads)


def test_thin_products_are_divided_as_those_of_the_nearest_side(net):
    trials = (
        split(8, 100.0, 200.0), split(32, 100.0, 200.0),
        split(8, 100.0, 220.0, ONE), split(32, 200.0, 300.0, ONE),
    )  # fmt: skip
    known = replace(net, split_trials=trials)
    forward, backward = split_parts(known, 40)
    assert forward == ReplacedWork(pytest.approx(1.0), with_call=False)
    assert backward.part == pytest.approx(2 / 3)
    forward, backward = split_parts(known, 6)
    assert forward.part == pytest.approx(0.0)
    assert backward.part == pytest.approx(2 * (1 - 200 / 220))
    assert split_parts(replace(net, split_trials=trials[:2]), 8) == (None, None)


def test_a_layer_with_factors_is_divided_as_it_was_tried(net):
    own = KroneckerTrial(64, 256, 128, 4, (300.0, 100.0), (600.0, 200.0))
    there = replace(own, forward_us=(0.0, 150.0), backward_us=(0.0, 180.0), threads=ONE)
    other = replace(there, blocks=2, forward_us=(0.0, 100.0))
    forward, backward = kronecker_parts(replace(net, kronecker_trials=(own, other, there)), own)
    assert forward == ReplacedWork(pytest.approx(2 / 3))
    # More threads take longer.
    assert backward == ReplacedWork(0.0)
    assert kronecker_parts(replace(net, kronecker_trials=(own, other)), own) == (None, None)


def test_a_task_with_added_work_takes_both_parts_on_one_thread():
    usual = Division(Interval.exact(1.0), tried=True)
    half = _with_new_work(usual, ReplacedWork(0.0, 0.5), OWN)
    # Half of the time doubles on one thread, the other half stays.
    assert 1 / gained(half.part.value, OWN) == pytest.approx(1.5)
    whole = _with_new_work(usual, ReplacedWork(0.0), OWN)
    assert (whole.part.value, whole.loops, whole.tried) == (0.0, 0, True)
    assert not _with_new_work(usual, ReplacedWork(0.5, with_call=False), OWN).tried
