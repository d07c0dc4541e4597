from dataclasses import replace
from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyline.plan.placement import GraphLayer, LayerGraph, StageLimits, place
from skyline.plan.stage_cut import BlockTimes, StageSizes, cut_blocks, slowest_stage_us


def sizes(fixed, block, spared, again):
    return StageSizes(*(np.array(one, dtype=float) for one in (fixed, block, spared, again)))


def roomy(stages):
    return sizes([0] * stages, [1] * stages, [0] * stages, [0] * stages)


def stage_us(found, times):
    """The times of the stages of a cut."""
    ends = [0.0] * len(found.blocks)
    ends[0] += times.first_us
    ends[-1] += times.last_us
    counts = zip(ends, found.blocks, found.recomputed, strict=True)
    return [end + blocks * times.block_us + again * times.again_us for end, blocks, again in counts]


def by_trying_all(blocks, times, memory, room):
    stages = len(memory.fixed_bytes)
    best = inf
    for counts in product(range(blocks + 1), repeat=stages):
        if sum(counts) != blocks:
            continue
        slowest = 0.0
        for stage, count in enumerate(counts):
            end = times.first_us * (stage == 0) + times.last_us * (stage == stages - 1)
            if not count and not end:
                slowest = inf
                break
            fits = [
                again
                for again in range(count + 1)
                if memory.fixed_bytes[stage]
                + count * memory.block_bytes[stage]
                - again * memory.spared_bytes[stage]
                + (memory.again_bytes[stage] if again else 0)
                <= room
            ]
            slowest = max(slowest, end + count * times.block_us + min(fits) * times.again_us if fits else inf)
        best = min(best, slowest)
    return best


@st.composite
def problems(draw):
    stages = draw(st.integers(2, 4))
    blocks = draw(st.integers(stages, 8))
    size = st.integers(0, 9)
    times = BlockTimes(
        float(draw(st.integers(1, 9))), float(draw(size)), float(draw(size)), float(draw(st.integers(0, 30)))
    )
    each = st.lists(size, min_size=stages, max_size=stages)
    spared = draw(st.one_of(st.just([0] * stages), each))
    block = [1 + more + less for more, less in zip(draw(each), spared, strict=True)]
    memory = sizes(draw(each), block, spared, draw(each))
    return blocks, times, memory, float(draw(st.sampled_from([12, 20, 35, 60, 500])))


@settings(max_examples=80)
@given(problems())
def test_the_closed_form_finds_the_best_of_all_cuts(problem):
    blocks, times, memory, room = problem
    best, found = by_trying_all(*problem), cut_blocks(*problem)
    assert (found is None) == (best == inf)
    if found is None:
        return
    assert sum(found.blocks) == blocks
    assert max(stage_us(found, times)) == pytest.approx(best)
    for stage, (count, again) in enumerate(zip(found.blocks, found.recomputed, strict=True)):
        kept = memory.fixed_bytes[stage] + count * memory.block_bytes[stage]
        need = kept - again * memory.spared_bytes[stage] + (memory.again_bytes[stage] if again else 0)
        assert need <= room
        assert again == 0 or kept > room


@pytest.mark.parametrize(
    ("blocks", "stages", "last"), [(32, 4, 24.0), (30, 4, 24.0), (12, 6, 35.0), (7, 3, 2.0)]
)
def test_equal_blocks_are_placed_as_by_the_program_over_ideals(blocks, stages, last):
    chain = [GraphLayer(4.0), *[GraphLayer(10.0)] * blocks, GraphLayer(last)]
    found = place(LayerGraph.chain(chain), StageLimits(inf, (1.0,) * stages))
    assert found.slowest_us == slowest_stage_us(blocks, stages, 10.0, 4.0, last)


def test_the_stage_of_the_head_has_fewer_blocks():
    times = BlockTimes(10.0, 0.0, 0.0, 24.0)
    found = cut_blocks(32, times, roomy(4), 1e9)
    # Within 90 the stages take 9, 9, 9 and 6. The first one keeps the most micro-batches and is spared.
    assert found.blocks == (8, 9, 9, 6)
    assert stage_us(found, times) == [80, 90, 90, 84]


def test_blocks_move_to_stages_with_room():
    times = BlockTimes(10.0, 0.0, 0.0, 0.0)
    # 1F1B: the first of three stages keeps three micro-batches.
    memory = sizes([0, 0, 0], [30, 20, 10], [0, 0, 0], [0, 0, 0])
    assert cut_blocks(6, times, memory, 60).blocks == (2, 2, 2)
    assert cut_blocks(6, times, memory, 40).blocks == (1, 2, 3)
    # One, one and three are all that fit.
    assert cut_blocks(6, times, memory, 30) is None


def test_only_as_many_blocks_recompute_as_must():
    times = BlockTimes(10.0, 4.0, 0.0, 0.0)
    memory = sizes([0, 0], [20, 10], [18, 9], [10, 10])
    # Four blocks on the first stage keep 80. One that recomputes spares 18 and needs 10 for its activations.
    found = cut_blocks(8, times, memory, 72)
    assert (found.blocks, found.recomputed) == ((4, 4), (1, 0))
    # A slow repetition is avoided by another cut: 3 blocks keep 60, and 5 keep 50.
    slow = cut_blocks(8, replace(times, again_us=11.0), memory, 72)
    assert (slow.blocks, slow.recomputed) == ((3, 5), (0, 0))


def test_an_end_may_be_a_stage_by_itself():
    assert cut_blocks(4, BlockTimes(10.0, 0.0, 0.0, 100.0), roomy(2), 1e9).blocks == (4, 0)
    assert cut_blocks(2, BlockTimes(10.0, 0.0, 0.0, 100.0), roomy(3), 1e9).blocks == (1, 1, 0)
