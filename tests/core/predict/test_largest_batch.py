"""The search for the largest batch that fits, on memory that grows in a given way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from skyline.predict.largest_batch import largest_batch
from skyline.predict.shape_tracer import TracedSizes
from skyline.source.knob import Knob
from skyline.trace.profile import Profile

Peak = Callable[[int], int]
BASE = 16


class Memory:
    """Traces in no time: the peak at a batch size, None for a size that cannot be traced."""

    def __init__(self, peak: Peak, most: int = 10**9) -> None:
        self.peak = peak
        self.most = most
        self.asked: list[int] = []

    def at(self, profile: Profile, knob: Knob, size: int, done: float) -> Profile | None:
        self.asked.append(size)
        return replace(profile, batch_size=size, peak_bytes=self.peak(size)) if size <= self.most else None


@pytest.fixture
def base(profile: Profile) -> Profile:
    """The hand-made profile, whose batch size is found, without a data set that bounds it."""
    assert profile.batch_size == BASE
    return replace(profile, loaders=(), trials=())


def sizes(base: Profile, memory: Memory) -> TracedSizes:
    return TracedSizes(memory, replace(base, peak_bytes=memory.peak(BASE)))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("room", [1_100, 1_500, 4_321, 11_239])
def test_it_is_traced_itself_and_one_more_would_not_fit(base: Profile, room: int):
    def peak(size: int) -> int:
        return 1_000 + 10 * size

    found = largest_batch(sizes(base, Memory(peak)), room)
    assert found.size is not None
    assert (found.traced, found.larger_untried) == (True, False)
    assert peak(found.size) <= room < peak(found.size + 1)


def test_memory_that_bends_is_followed_until_the_guess_holds(base: Profile):
    def peak(size: int) -> int:
        # Above 100 another algorithm needs room of its own.
        return 1_000 + 10 * size + (2_000 + 5 * size if size > 100 else 0)

    found = largest_batch(sizes(base, Memory(peak)), 10_000)
    assert found.traced
    assert found.size is not None
    assert peak(found.size) <= 10_000
    assert found.size >= 460, "the largest is 466"


def test_what_was_traced_for_one_gpu_is_known_for_the_next(base: Profile):
    memory = Memory(lambda size: 1_000 + 10 * size)
    traced = sizes(base, memory)
    first = largest_batch(traced, 5_000)
    asked = list(memory.asked)
    assert asked == [32, 8, 400]
    assert largest_batch(traced, 5_000) == first
    largest_batch(traced, 6_000)
    assert memory.asked == [*asked, 500]


def test_a_size_far_away_is_reckoned_from_the_largest_that_is_traced(base: Profile):
    memory = Memory(lambda size: 1_000 + size)
    found = largest_batch(sizes(base, memory), 51_000)
    assert found.size is not None
    # Room is left for what the line is unsure by.
    assert 30_000 < found.size < 50_000
    assert not found.traced
    assert max(memory.asked) == 64 * BASE


def test_a_size_that_cannot_be_traced_is_tried_smaller(base: Profile):
    memory = Memory(lambda size: 1_000 + 10 * size, most=600)
    traced = sizes(base, memory)
    found = largest_batch(traced, 10_000)
    assert found.size is not None
    assert 800 < found.size < 900
    assert not found.traced
    assert 450 in traced.peaks


def test_no_batch_is_larger_than_the_data_set(base: Profile, profile: Profile):
    (loader, *_) = profile.loaders
    bounded = replace(base, loaders=(replace(loader, dataset_size=500),))
    found = largest_batch(sizes(bounded, Memory(lambda size: 10 * size)), 10**9)
    assert (found.size, found.traced, found.larger_untried) == (500, True, True)


def test_where_not_even_one_sample_fits_there_is_none(base: Profile):
    memory = Memory(lambda size: 1_000 + 10 * size)
    found = largest_batch(sizes(base, memory), 900)
    assert (found.size, found.traced, found.reason) == (None, False, "")


def test_without_a_batch_size_that_can_be_changed_it_says_why(base: Profile):
    traced = TracedSizes(Memory(lambda size: size), replace(base, batch_size=None))  # pyright: ignore[reportArgumentType]
    assert "was not found" in largest_batch(traced, 10**9).reason
    stubborn = largest_batch(sizes(base, Memory(lambda size: size, most=0)), 10**9)
    assert stubborn.size is None
    assert "did not change the batch" in stubborn.reason
