"""Batch normalization of a recorded GPU in other layouts and formats: a step of ResNet-50, recorded on an H200."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skyline.graph.selection import select
from skyline.graph.task import TaskKind, WorkClass
from skyline.trace.facts import Device
from skyline.trace.profile import Profile
from skyline.trace.store import load
from skyline.whatif.baseline import baseline
from skyline.whatif.composition import compose
from skyline.whatif.question import Choice

KEPT = Path(__file__).parents[3] / "benchmarks" / "gpu_h200" / "changes_imagenet.profile.json.gz"
BANDWIDTH_BYTES_PER_US = 4.8e6
"""Of an H200, as NVIDIA states it."""
LARGEST = (128, 256, 56, 56)


@pytest.fixture(scope="module")
def recorded() -> Profile:
    return load(KEPT)


def norm_factors(profile: Profile) -> np.ndarray:
    """Times of the normalizations after the change over those before."""
    start = baseline(profile)
    kernels = select(start.operators, kind=TaskKind.KERNEL, name="cudnn::bn_")
    assert len(kernels) > 100
    changed = compose(start, [Choice("channels_last")]).scenario.graph
    return changed.durations[kernels] / start.operators.durations[kernels]


def test_with_few_channels_it_gains_most(recorded: Profile) -> None:
    """64 blocks leave half of 132 multiprocessors idle; 2048 blocks fill them."""
    factors = norm_factors(recorded)
    assert factors.min() < 0.6 < factors.max() <= 1.0


def test_no_kernel_moves_its_data_faster_than_the_memory_can(recorded: Profile) -> None:
    start = baseline(recorded)
    changed = compose(start, [Choice("channels_last")]).scenario.graph
    kernels = select(start.operators, kind=TaskKind.KERNEL, name="cudnn::bn_bw")
    moved_bytes = 3 * 4 * np.prod(LARGEST, dtype=np.float64)
    slowest_us = changed.durations[kernels].max()
    assert slowest_us > moved_bytes / BANDWIDTH_BYTES_PER_US


def test_other_kernels_between_the_convolutions_take_as_long_as_before(recorded: Profile) -> None:
    start = baseline(recorded)
    graph = start.operators
    changed = compose(start, [Choice("channels_last")]).scenario.graph
    pointwise = select(graph, kind=TaskKind.KERNEL, name="vectorized_elementwise")
    pointwise = pointwise[
        ~np.isin(pointwise, select(graph, kind=TaskKind.KERNEL, work=WorkClass.CONVOLUTION))
    ]
    assert changed.durations[pointwise] == pytest.approx(graph.durations[pointwise])


def test_on_an_unknown_gpu_it_stays_as_recorded(recorded: Profile) -> None:
    elsewhere = replace(recorded.environment, device=Device("Some GPU", "cuda"))
    assert norm_factors(replace(recorded, environment=elsewhere)) == pytest.approx(1.0)


def test_autocast_does_not_halve_what_one_block_per_channel_holds_up(recorded: Profile) -> None:
    """A block reads as many numbers in a given time in 16 bits as in 32."""
    start = baseline(recorded)
    kernels = select(start.operators, kind=TaskKind.KERNEL, name="cudnn::bn_fw_tr_1C11_kernel_NCHW")
    changed = compose(start, [Choice("amp", "bf16")]).scenario.graph
    factors = changed.durations[kernels] / start.operators.durations[kernels]
    assert 0.75 < np.median(factors) <= 1.0
