from dataclasses import replace

import pytest

from skyline.plan.layers import LayerPart, Layers
from skyline.plan.rank_memory import activation_bytes, micro_batches_held, rank_memory
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
