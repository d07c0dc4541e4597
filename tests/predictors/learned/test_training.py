"""Training on a few kernels, made by a rule that can be learned."""

import csv
import gzip
import sys
from dataclasses import replace

import numpy as np
import pytest

from skyline.errors import UsageError
from skyline.predict.gpus import gpu_named
from skyline_predictors.call_time import BEFORE, shown_us
from skyline_predictors.constants import Spread
from skyline_predictors.learned import boosting
from skyline_predictors.learned.family import Family
from skyline_predictors.learned.fitting import START, fitted
from skyline_predictors.learned.left_out import (
    Held,
    board_offset,
    by_length,
    departure,
    no_surer,
    quantiles,
    trust,
)
from skyline_predictors.learned.measurements import FILE, KernelMeasurements, data_hash, measured
from skyline_predictors.learned.stream import Streams
from skyline_predictors.learned.train import unsteady

GPUS = {"V100": 900e3 * 0.9, "P100": 732e3 * 0.7}
SHORTEST_US = 30.0


@pytest.fixture
def folder(tmp_path):
    """Additions at a share of the bandwidth, as timing their calls shows them, and a row in another format."""
    head = ["op", "gpu", "dtype", "rows", "cols", "latency_ms"]
    with gzip.open(tmp_path / FILE, "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        for gpu, bytes_per_us in GPUS.items():
            writer.writerow(["add", gpu, "fp32", 1, 1, SHORTEST_US / 1e3])
            for rows in range(2000, 40000, 500):
                time_us = max(SHORTEST_US, BEFORE * SHORTEST_US + 2 + 12 * rows * 1024 / bytes_per_us)
                writer.writerow(["add", gpu, "fp32", rows, 1024, time_us / 1e3])
        writer.writerow(["add", "V100", "fp16", 100, 100, 1.0])
    return tmp_path


def test_the_shortest_call_tells_when_kernels_start(folder):
    sets, calls, rows = measured([folder])
    assert set(sets) == {Family.ELEMENTWISE}
    assert calls["aten::add"] == {"6.0": SHORTEST_US, "7.0": SHORTEST_US, "": SHORTEST_US}
    assert rows == {"V100": 77, "P100": 77}
    (one, _) = sets[Family.ELEMENTWISE]
    assert one.kernel_us[1:] == pytest.approx(one.time_us[1:] - BEFORE * SHORTEST_US)
    assert shown_us(one.kernel_us, one.shortest_us) == pytest.approx(one.time_us)
    # The duration of the kernel of the shortest call is not known from it.
    assert one.telling[0] == 0
    assert one.telling[-1] == 1
    assert list(data_hash([folder])) == [f"{folder.name}/{FILE}"]


def test_contradicted_measurements_count_half(folder):
    sets, _, _ = measured([folder])
    (one, _) = sets[Family.ELEMENTWISE]
    doubted = replace(one, reliable=np.zeros(len(one.time_us), dtype=bool))
    physics = one.kernel_us / 2
    # The shortest call tells nothing of how short its kernel is.
    assert departure(one, physics) == pytest.approx(np.log(2) * one.telling)
    assert departure(doubted, physics) == pytest.approx(np.log(2) / 2 * one.telling)
    assert departure(one, one.kernel_us * 2) == pytest.approx(-np.log(2))


def test_products_of_boards_below_their_clock_correct_no_others():
    ones = np.ones(3)
    streams = Streams(ones, ones, ones, ones)
    hot, steady = (
        KernelMeasurements(gpu_named(name), streams, ones, ones, ones, ones, ones, ones > 0)
        for name in ("T4", "A100-40GB-PCIe")
    )
    assert unsteady([hot, steady]) == ["7.5"]
    assert unsteady([hot, replace(hot, gpu=gpu_named("RTX 2080 Ti"))]) == []


def test_a_correction_that_helps_some_gpus_only_is_not_taken():
    def held(errors_us: float, correction: float) -> Held:
        count = 50
        ones = np.ones(count)
        sizes = Streams(ones * 1e6, ones * 1e3, ones * 1e7, ones * 0)
        time_us = ones * 100.0
        measured_ = KernelMeasurements(
            gpu_named("V100"), sizes, time_us * np.exp(errors_us), time_us, ones, ones / count, ones, ones > 0
        )
        return Held(measured_, time_us, ones * correction, ones * 0)

    assert trust([held(0.2, 0.2), held(0.21, 0.2), held(0.19, 0.2)]) == 1.0
    assert trust([held(0.2, 0.2), held(0.2, -0.19), held(0.2, 0.2), held(0.2, -0.19)]) == 0.0


def test_the_constants_of_the_physics_are_found(folder):
    sets, _, _ = measured([folder])
    both = sets[Family.ELEMENTWISE]
    physics, off = fitted(Family.ELEMENTWISE, both, START, 200, seed=1)
    _, before = fitted(Family.ELEMENTWISE, both, START, 0, seed=1)
    assert off < before
    # One share for both has to lie between theirs.
    assert 0.7 <= physics.elementwise.stacked_share <= 0.9


def test_trees_learn_a_step():
    pytest.importorskip("sklearn")
    features = np.random.default_rng(0).normal(size=(400, 3))
    target = np.where(features[:, 1] > 0, 1.0, -1.0)
    forest = boosting.boosted(features, target, np.ones(400), trees=20)
    assert np.mean(np.abs(forest.predict(features) - target)) < 0.4


def test_trees_do_not_depend_on_the_order_of_a_sum():
    pytest.importorskip("sklearn")
    chooser = np.random.default_rng(0)
    target = chooser.normal(size=400)
    forest = boosting.boosted(chooser.normal(size=(400, 3)), target, np.ones(400), trees=2)
    assert forest.base == pytest.approx(target.mean(), abs=1e-9)
    assert forest.base == round(forest.base, 9)


def test_without_the_library_the_hint_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(UsageError, match="scikit-learn") as raised:
        boosting.boosted(np.zeros((10, 1)), np.zeros(10), np.ones(10))
    assert "train" in raised.value.hint


def test_nine_in_ten_lie_between_the_quantiles():
    logs = np.linspace(-1, 1, 2001)
    found = quantiles(logs, np.ones_like(logs))
    assert np.log([found.low, found.high]) == pytest.approx([-0.9, 0.9], abs=0.01)
    # Weights decide: half of the rows count for next to nothing.
    found = quantiles(logs, np.where(logs > 0, 1.0, 1e-9))
    assert np.log([found.low, found.high]) == pytest.approx([0.0, 0.95], abs=0.06)


def test_long_kernels_have_quantiles_of_their_own():
    logs = np.concatenate([np.linspace(-1, 1, 500), np.linspace(-0.1, 0.1, 500)])
    kernels = np.concatenate([np.full(500, 10.0), np.full(500, 5000.0)])
    short, middle, long = by_length(logs, np.ones(1000), kernels)
    assert long.high < middle.high < short.high
    assert isinstance(short, Spread)


def test_a_board_is_as_far_off_as_its_long_kernels():
    def held(error: float) -> Held:
        short, long = np.ones(80), np.ones(20)
        sizes = Streams(*(np.ones(100) for _ in range(4)))
        # Most calls are no longer than the shortest and right for that; they count for little.
        time_us = np.concatenate([short * 30, long * 1000 * np.exp(error)])
        weight = np.concatenate([short * 1e-3, long])
        measured_ = KernelMeasurements(
            gpu_named("V100"), sizes, time_us, time_us, np.full(100, 30.0), weight, time_us, time_us > 0
        )
        physics_us = np.concatenate([short, long * (1000 - BEFORE * 30)])
        return Held(measured_, physics_us, np.zeros(100), np.zeros(100))

    assert board_offset([held(0.0), held(0.1)], 0.0) == pytest.approx(1.645 * 0.1 / 2**0.5)


def test_nobody_is_surer_of_what_was_not_measured():
    narrow, known = [Spread(0.99, 1.2)], {"6.0": [Spread(0.9, 1.1)], "7.0": [Spread(0.95, 1.05)]}
    assert no_surer(narrow, known.values()) == [Spread(0.9, 1.2)]
