from dataclasses import replace

import pytest

from skyline.plan.layers import LayerPart, Layers
from skyline.plan.rank_memory import activation_bytes, largest_rank, micro_batches_held, rank_memory
from skyline.plan.schedule import orders
from skyline.plan.strategy import PipelineSchedule, Precision, Recompute, Sharding, Strategy

# Ten blocks of 100 parameters, without ends.
LAYERS = Layers(
    LayerPart(parameters=100, saved_bytes=40, selective_bytes=20, input_bytes=4), 10, LayerPart(), LayerPart()
)


@pytest.mark.parametrize(
    ("sharding", "parameters", "gradients", "optimizer"),
    [
        (Sharding.NONE, 4000, 4000, 8000),
        (Sharding.ZERO_1, 4000, 4000, 2000),
        (Sharding.ZERO_2, 4000, 1000, 2000),
        (Sharding.ZERO_3, 1000, 1000, 2000),
    ],
)
def test_sharding_divides_states(sharding, parameters, gradients, optimizer):
    # Adam in float32: 4 + 4 + 8 bytes for each of 1000 parameters, over 4 ranks.
    memory = rank_memory(LAYERS, Strategy(data=4, sharding=sharding))
    assert (memory.parameters, memory.gradients, memory.optimizer) == (parameters, gradients, optimizer)


def test_bfloat16_halves_states_and_offload_takes_the_optimizer_away():
    pure = rank_memory(LAYERS, Strategy(precision=Precision.PURE))
    assert (pure.parameters, pure.gradients, pure.optimizer) == (2000, 2000, 4000)
    assert rank_memory(LAYERS, Strategy(offload=True)).optimizer == 0


def test_float32_needs_no_copies_and_wider_gathers():
    single, half = Strategy(precision=Precision.SINGLE), Strategy(precision=Precision.HALF)
    assert rank_memory(LAYERS, half) == rank_memory(LAYERS, Strategy())
    assert rank_memory(LAYERS, single).buffers == 0
    assert rank_memory(LAYERS, half).buffers == 2 * 1000
    assert rank_memory(LAYERS, single).optimizer == rank_memory(LAYERS, half).optimizer == 8000
    # Three blocks in the format of the products, and a gradient of 4 bytes.
    sharded = [
        rank_memory(LAYERS, replace(one, data=4, sharding=Sharding.ZERO_3)).buffers for one in (single, half)
    ]
    assert sharded == [100 * (3 * 4 + 4), 100 * (3 * 2 + 4)]


def test_recomputation_keeps_inputs_and_one_block():
    strategy = Strategy()
    assert activation_bytes(LAYERS, strategy, 10) == 400
    assert activation_bytes(LAYERS, replace(strategy, recompute=Recompute.SELECTIVE), 10) == 200 + 40
    assert activation_bytes(LAYERS, replace(strategy, recompute=Recompute.FULL), 10) == 40 + 40


def test_micro_batches_in_flight():
    pipeline = Strategy(pipeline=5, accumulation=20)
    assert micro_batches_held(replace(pipeline, schedule=PipelineSchedule.GPIPE)) == 20
    assert micro_batches_held(pipeline) == 5
    assert micro_batches_held(Strategy(accumulation=20)) == 1
    assert activation_bytes(LAYERS, pipeline, 2) == 5 * 2 * 40


def test_the_stage_with_the_most_memory_may_be_the_last():
    # 1F1B: the first stage keeps activations of four micro-batches, the last of one and its own output layer.
    wide = replace(LAYERS, last=LayerPart(parameters=30, saved_bytes=300))
    pipeline = Strategy(pipeline=4, accumulation=8)
    light = replace(LAYERS, last=LayerPart(parameters=1))
    assert largest_rank(light, pipeline) == rank_memory(light, pipeline, 0)
    assert largest_rank(wide, pipeline) == rank_memory(wide, pipeline, 3) != rank_memory(wide, pipeline, 0)


@pytest.mark.parametrize("schedule", list(PipelineSchedule))
@pytest.mark.parametrize("micro_batches", [4, 8])
def test_each_stage_keeps_the_micro_batches_between_their_passes(schedule, micro_batches):
    chunks = 2 if schedule is PipelineSchedule.INTERLEAVED else 1
    strategy = Strategy(pipeline=4, accumulation=micro_batches, schedule=schedule, chunks=chunks)
    last = "W" if schedule is PipelineSchedule.ZERO_BUBBLE else "B"
    for stage, slots in enumerate(orders(schedule, 4, micro_batches, chunks)):
        levels, level = [], 0
        for slot in slots:
            level += slot.kind == "F"
            levels.append(level)
            level -= slot.kind == last
        assert level == 0
        assert micro_batches_held(strategy, stage) == max(levels) / chunks


def test_without_flushes_stage_s_of_p_has_p_minus_s_versions_of_its_weights():
    single = Strategy(pipeline=5, accumulation=1, schedule=PipelineSchedule.ASYNCHRONOUS)
    assert [single.weight_versions(stage) for stage in range(5)] == [5, 4, 3, 2, 1]
    # With as many micro-batches in a step as stages, no two micro-batches are two updates apart.
    whole = replace(single, accumulation=5)
    assert [whole.weight_versions(stage) for stage in range(5)] == [2, 2, 2, 2, 1]
    # Two blocks of 100 parameters: a version in 16 bits takes 400 bytes, as does the copy of autocast.
    buffers = [rank_memory(LAYERS, single, stage).buffers for stage in range(5)]
    assert buffers == [2000, 1600, 1200, 800, 400]
    assert [rank_memory(LAYERS, single, stage).activations for stage in range(5)] == [400, 320, 240, 160, 80]
    assert single.label().endswith("async, 5 weight versions (changes convergence)")
    flushed = replace(single, schedule=PipelineSchedule.ONE_F_ONE_B)
    assert rank_memory(LAYERS, flushed).peak_bytes < rank_memory(LAYERS, single).peak_bytes


def test_the_first_and_the_last_stage_have_the_ends():
    ends = replace(
        LAYERS, first=LayerPart(parameters=7, saved_bytes=3), last=LayerPart(parameters=11, saved_bytes=50)
    )
    strategy = Strategy(pipeline=5, accumulation=20)
    found = [rank_memory(ends, strategy, stage) for stage in range(5)]
    assert [one.parameters for one in found] == [4 * 207, 800, 800, 800, 4 * 211]
    assert found[0].activations == 5 * (80 + 3)
    assert found[4].activations == 80 + 50
