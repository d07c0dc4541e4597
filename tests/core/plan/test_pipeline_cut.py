import gzip
import json
from dataclasses import replace
from itertools import product

import pytest

from skyline.plan.cluster import cluster_named
from skyline.plan.kernel_time import KernelTimes
from skyline.plan.pipeline_cut import cut, stage_layers
from skyline.plan.rank_memory import largest_rank, rank_memory, stage_sizes
from skyline.plan.search import USABLE, Request, search
from skyline.plan.stage_cut import slowest_stage_us
from skyline.plan.step import block_times, step_time
from skyline.plan.strategy import PipelineSchedule, Precision, Recompute, Sharding, Strategy
from skyline.plan.transformer import transformer_named
from skyline.plan.work import work_of
from skyline.report.pages.plan import row_page
from skyline.report.plan import Terms, ranked

MODEL = transformer_named("llama3-8b")
CLUSTER = cluster_named("dgx-a100-40gb").with_gpus(8)
ROOM = USABLE * CLUSTER.gpu.memory_bytes


def made(strategy, counted, room=ROOM):
    work = work_of(MODEL.layers(strategy), KernelTimes(CLUSTER.gpu, counted), strategy.precision)
    return work, cut(work, strategy, CLUSTER, room)


def peaks(strategy):
    layers = MODEL.layers(strategy)
    return [rank_memory(layers, strategy, stage).peak_bytes for stage in range(strategy.pipeline)]


@pytest.mark.parametrize("schedule", list(PipelineSchedule))
@pytest.mark.parametrize("precision", [Precision.MIXED, Precision.PURE])
def test_the_memory_of_a_stage_is_linear_in_its_blocks(schedule, precision):
    for sharding, recompute in product(Sharding, Recompute):
        strategy = Strategy(
            data=2, pipeline=4, accumulation=8, schedule=schedule, precision=precision, sharding=sharding,
            recompute=recompute,
        )  # fmt: skip
        sizes = stage_sizes(MODEL.layers(strategy), strategy)
        one = replace(strategy, stage_blocks=(9, 8, 8, 7))
        some = replace(one, stage_recomputed=(0, 8, 3, 1)) if recompute is not Recompute.NONE else one
        told = [
            sizes.fixed_bytes[stage]
            + some.stage_blocks[stage] * sizes.block_bytes[stage]
            - some.recomputed_on(stage, 32) * sizes.spared_bytes[stage]
            + (sizes.again_bytes[stage] if some.recomputed_on(stage, 32) else 0.0)
            for stage in range(4)
        ]
        assert told == pytest.approx(peaks(some))


def test_the_largest_rank_of_a_cut_is_that_of_all_its_stages():
    strategy = Strategy(data=1, pipeline=8, accumulation=16, recompute=Recompute.FULL)
    layers = MODEL.layers(strategy)
    for blocks, recomputed in (
        ((1, 2, 3, 4, 5, 6, 7, 4), ()),
        ((4, 4, 4, 4, 4, 4, 4, 4), (4, 3, 2, 1, 0, 0, 0, 0)),
        ((2, 5, 5, 5, 5, 5, 4, 1), (2, 5, 1, 5, 0, 0, 0, 1)),
    ):
        one = replace(strategy, stage_blocks=blocks, stage_recomputed=recomputed)
        assert largest_rank(layers, one).peak_bytes == max(peaks(one))


def test_without_need_the_cut_is_that_of_the_slowest_stage(counted):
    strategy = Strategy(tensor=2, pipeline=4, accumulation=8)
    work, found = made(strategy, counted, 1e12)
    times = block_times(work, strategy, CLUSTER)
    slowest = slowest_stage_us(32, 4, times.block_us, times.first_us, times.last_us)
    told = step_time(work, found, CLUSTER)
    assert (told.compute_us + told.exposed_us) / 8 == pytest.approx(slowest)
    assert sum(found.stage_blocks) == 32
    assert found.stage_blocks[-1] < max(found.stage_blocks)
    # With as many blocks on each stage the last one, which has the output layer, would be slower.
    assert slowest < times.block_us * 8 + times.last_us


def test_stages_recompute_no_more_blocks_than_they_must(counted):
    strategy = Strategy(tensor=2, pipeline=4, accumulation=8, recompute=Recompute.FULL)
    room = 0.8 * max(peaks(replace(strategy, recompute=Recompute.NONE)))
    work, found = made(strategy, counted, room)
    assert max(peaks(found)) <= room
    assert 0 < sum(found.stage_recomputed) < 32
    # 1F1B: stages behind keep fewer micro-batches.
    assert found.stage_recomputed[0] > found.stage_recomputed[-1] == 0
    every = step_time(work, strategy, CLUSTER)
    assert step_time(work, found, CLUSTER).total_us < every.total_us
    for stage, again in enumerate(found.stage_recomputed):
        if again:
            less = tuple(one - (number == stage) for number, one in enumerate(found.stage_recomputed))
            assert peaks(replace(found, stage_recomputed=less))[stage] > room
    words = stage_layers(work.layers, found)
    assert words[0].startswith("input, blocks 0-")
    assert words[0].endswith("recompute)")
    assert words[-1].endswith("-31, output")
    some = f"recompute full in {sum(found.stage_recomputed)} of 32 blocks"
    assert some in found.label()


def test_recomputation_without_need_is_none(counted):
    _, found = made(Strategy(tensor=2, pipeline=4, accumulation=8, recompute=Recompute.FULL), counted, 1e12)
    assert found.recompute is Recompute.NONE
    assert found.stage_recomputed == ()


def test_a_strategy_stays_as_it_is_where_nothing_is_cut(counted):
    for strategy in (
        Strategy(data=8),
        Strategy(pipeline=4, accumulation=8, schedule=PipelineSchedule.INTERLEAVED, chunks=2),
    ):
        assert made(strategy, counted)[1] is strategy
    tight = Strategy(pipeline=2, accumulation=8)
    assert made(tight, counted)[1] is tight


@pytest.mark.parametrize(
    "schedule", [one for one in PipelineSchedule if one is not PipelineSchedule.INTERLEAVED]
)
def test_stages_that_differ_take_the_simulated_time_in_closed_form(schedule, counted):
    strategy = Strategy(tensor=2, pipeline=4, accumulation=16, schedule=schedule, recompute=Recompute.FULL)
    room = 0.8 * max(peaks(replace(strategy, recompute=Recompute.NONE)))
    work, found = made(strategy, counted, room)
    assert len(set(found.stage_recomputed)) > 1
    closed, exact = (step_time(work, found, CLUSTER, exact=one).total_us for one in (False, True))
    assert closed == pytest.approx(exact, rel=0.02)


def test_rows_say_which_layers_their_stages_have(counted):
    found = search(MODEL, [CLUSTER], counted, Request())
    for row in found.rows:
        strategy, layers = row.strategy, MODEL.layers(row.strategy)
        cuttable = strategy.pipeline > 1 and strategy.chunks == 1
        assert bool(strategy.stage_blocks) == cuttable
        if cuttable:
            assert sum(strategy.stage_blocks) == MODEL.blocks
            assert row.memory.peak_bytes == max(peaks(strategy)) <= ROOM
            assert len(stage_layers(layers, strategy)) == strategy.pipeline
    plan = ranked(MODEL, CLUSTER, found, counted, Terms(), 100)
    report = plan.report
    partly = next(row for row in report.rows if row.strategy.stage_recomputed)
    assert "of 32 blocks" in partly.label
    page = str(row_page(report, partly))
    assert f"Layers of the stages: {'; '.join(partly.stage_layers)}." in page
    written = json.loads(gzip.decompress(plan.perfetto(partly.rank)))
    assert written["otherData"]["stages"] == list(partly.stage_layers)
    assert all(row.stage_layers == () for row in report.rows if row.strategy.pipeline == 1)
