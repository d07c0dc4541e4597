"""Invariants of every recording of a GPU, for the examples and for scripts in the styles that people write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.trace.profile import Profile
from skyline.whatif.baseline import baseline
from skyline.whatif.composition import detected_in
from skyline.whatif.registry import whatifs

pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("gpu")]

Misses = Callable[[Profile], list[str]]
STYLES = ("plain", "prefetcher", "amp", "captured", "own_kernels")


@pytest.fixture(scope="module")
def made() -> dict[str, Profile]:
    """The profiles that are looked at twice."""
    return {}


@pytest.fixture
def in_style(
    scripts: Path, profiled: Callable[..., Profile], made: dict[str, Profile]
) -> Callable[[str], Profile]:
    """The profile of a script in one of the styles."""

    def profile(style: str) -> Profile:
        if style not in made:
            made[style] = profiled(scripts / f"{style}.py", kernel_us=200)
        return made[style]

    return profile


@pytest.mark.parametrize("style", STYLES)
def test_all_time_is_there_once_and_every_kernel_has_its_launch_and_line(
    style: str, in_style: Callable[[str], Profile], misses: Misses
) -> None:
    profile = in_style(style)
    assert profile.environment.device.kind == "cuda"
    assert misses(profile) == []


def test_the_kernels_of_products_have_the_shapes_of_their_operators(
    in_style: Callable[[str], Profile],
) -> None:
    trace = in_style("plain").trace
    kernels = [record for record in trace.records if record.kind.value == "kernel"]
    products = [record for record in kernels if "mm_kernel" in record.name]
    called = [trace.shapes[record.shape] for record in products if record.shape >= 0]
    assert len(called) == len(products) > 0
    assert all(shape.operator in ("aten::mm", "aten::addmm") and shape.flops > 0 for shape in called)
    assert {record.phase.value for record in products} == {"forward", "backward"}
    assert not [record for record in kernels if record.shape >= 0 and "mm_kernel" not in record.name]


@pytest.mark.parametrize(
    "example",
    [
        pytest.param("image_classifier", marks=pytest.mark.long),
        pytest.param("small_gpt", marks=pytest.mark.long),
        "recommender",
    ],
)
def test_the_examples_on_a_gpu(
    example: str, examples: Path, profiled: Callable[..., Profile], misses: Misses
) -> None:
    profile = profiled(examples / f"{example}.py", "--device", "cuda")
    assert profile.environment.device.kind == "cuda"
    assert misses(profile) == []


@pytest.mark.parametrize("device", ["cpu"])
def test_the_option_keeps_an_example_off_the_gpu(
    device: str, examples: Path, profiled: Callable[..., Profile]
) -> None:
    profile = profiled(examples / "recommender.py", "--device", device, options={"recorded": 1})
    assert profile.environment.device.kind == "cpu"


def test_the_streams_of_a_prefetcher_are_told_apart(in_style: Callable[[str], Profile]) -> None:
    """The copies of the next batch run during the step, but not independently of it: one stream waits for the other."""
    trace = in_style("prefetcher").trace
    by_lane: dict[str, set[str]] = {}
    for record in trace.records:
        if record.lane.startswith("gpu"):
            by_lane.setdefault(record.lane, set()).add(record.kind.value)
    assert len(by_lane) == 2
    assert "copy" in set().union(*by_lane.values())


def test_two_ranks_with_collectives_on_a_stream_of_their_own(
    scripts: Path, profiled: Callable[..., Profile], misses: Misses
) -> None:
    profile = profiled(scripts / "two_ranks.py", options={"ranks": 2}, kernel_us=100, devices=2)
    assert misses(profile) == []
    collectives = [record for record in profile.trace.records if record.phase.value == "communication"]
    assert any(record.name.startswith("ncclDevKernel") for record in collectives)
    buckets = detected_in(baseline(profile), whatifs()["ddp_bucket"])
    assert buckets.applicable, buckets.reason
