from dataclasses import replace

import pytest

from skyline.graph.selection import select
from skyline.plan.cluster import cluster_named
from skyline.plan.constant import CONTENTION, EXPOSED_EXCHANGE, IMAGE_MIXED, IMAGE_WAITING, WAITING
from skyline.plan.kernel_time import KernelTimes, PartTime, WorkTime
from skyline.plan.layers import KnownPass, LayerPart, Layers
from skyline.plan.rank_memory import rank_memory
from skyline.plan.stage_cut import slowest_stage_us
from skyline.plan.step import (
    StepFactors,
    step_range,
    step_time,
    stream_times,
    streamed,
)
from skyline.plan.strategy import PipelineSchedule, Precision, Recompute, Sharding, Strategy
from skyline.plan.timeline import strategy_graph, stream_graph
from skyline.plan.transformer import transformer_named
from skyline.plan.waiting import decodes_images
from skyline.plan.work import Work, work_of
from skyline.predict.gpus import gpu_named
from skyline.simulate.engine import simulate
from skyline.trace.record import Phase

IDLE = PartTime(WorkTime(), WorkTime(), WorkTime())
CLUSTER = cluster_named("dgx-a100")


def work(parameters=1e8, block_us=(1000.0, 2000.0), blocks=10, **more):
    block = PartTime(WorkTime(other_us=block_us[0]), WorkTime(other_us=block_us[1]), WorkTime(other_us=600.0))
    part = LayerPart(parameters=parameters, input_bytes=1e6)
    return Work(Layers(part, blocks, LayerPart(), LayerPart()), block, IDLE, IDLE, **more)


def test_two_streams_by_hand():
    # Hidden: the first gather of 3 and then ten blocks of 10. Exposed: ten gathers of 20 and the last block.
    assert streamed(10, 10, 3, 0.0) == 103
    assert streamed(10, 10, 20, 0.0) == 210
    assert streamed(10, 10, 3, 1.0) == 3 + 9 * 13 + 10


def test_one_device_computes_alone():
    step = step_time(work(), Strategy(accumulation=4), CLUSTER.with_gpus(1))
    assert step.compute_us == 4 * 10 * 3000
    assert step.exposed_us == step.bubble_us == 0
    assert step.optimizer_us > 0


def test_recomputation_repeats_its_part():
    one = CLUSTER.with_gpus(1)
    assert step_time(work(), Strategy(recompute=Recompute.FULL), one).compute_us == 10 * 3600
    # Elementwise operators are repeated, and half of the products.
    assert step_time(work(), Strategy(recompute=Recompute.SELECTIVE), one).compute_us == 10 * 4000


def test_gradients_hide_under_the_backward_pass_but_for_the_last_block():
    eight = CLUSTER.with_gpus(8)
    small = step_time(work(parameters=1e6), Strategy(data=8), eight)
    large = step_time(work(parameters=3e8), Strategy(data=8), eight)
    assert 0 < small.exposed_us < 0.01 * small.compute_us
    # 12 GB at 225 bytes/ns, twice 7/8: longer than 20 ms of backward pass.
    assert large.exposed_us > 2 * 7 / 8 * 12e9 / 225e3 - 20_000


def test_ranks_of_a_measured_device_wait_for_the_slowest():
    eight = CLUSTER.with_gpus(8)
    # 30 ms of computation; 4 GB at 225 bytes/ns, twice 7/8, and 2 x 7 hops of 2 us, of which nothing hides.
    exchange = EXPOSED_EXCHANGE.value * (2 * 7 / 8 * 4e9 / 225e3 + 2 * 7 * 2)
    step = step_time(work(single_device=True), Strategy(data=8), eight)
    assert step.exposed_us == pytest.approx(30_000 * WAITING.value + exchange)


def test_shards_lose_as_much_more_than_described_ones_as_replicas_do():
    eight = CLUSTER.with_gpus(8)
    more = {
        sharding: step_time(work(single_device=True), Strategy(data=8, sharding=sharding), eight).exposed_us
        - step_time(work(), Strategy(data=8, sharding=sharding), eight).exposed_us
        for sharding in (Sharding.NONE, Sharding.ZERO_2, Sharding.ZERO_3)
    }
    assert more[Sharding.NONE] > 30_000 * WAITING.value
    assert more[Sharding.ZERO_2] == pytest.approx(more[Sharding.NONE])
    assert more[Sharding.ZERO_3] == pytest.approx(more[Sharding.NONE])


def test_wait_for_an_image_is_as_long_in_either_precision():
    eight = CLUSTER.with_gpus(8)
    images = work(parameters=1.0, single_device=True)
    images = replace(images, layers=replace(images.layers, host_images=True))
    share = {
        precision: step_time(images, Strategy(data=8, precision=precision), eight).exposed_us / 30_000
        for precision in (Precision.SINGLE, Precision.MIXED)
    }
    assert share[Precision.SINGLE] == pytest.approx(IMAGE_WAITING.value, abs=0.002)
    assert share[Precision.MIXED] == pytest.approx(IMAGE_WAITING.value * IMAGE_MIXED.value, abs=0.002)


def test_exchange_between_nodes_stays_under_the_backward_pass():
    sixteen = CLUSTER.with_gpus(16)
    alone, measured = (
        step_time(work(single_device=one), Strategy(data=16), sixteen) for one in (False, True)
    )
    assert measured.exposed_us - alone.exposed_us == pytest.approx(30_000 * WAITING.value)


@pytest.mark.parametrize(
    ("source", "decodes"),
    [
        ("data = torchvision.datasets.ImageFolder(path)", True),
        ("image = Image.open(name)", True),
        ("import nvidia.dali.fn as fn", True),
        ("images = torch.randn(8, 3, 224, 224)", False),
        ("class ImageFolders: pass", False),
    ],
)
def test_source_that_decodes_images_on_the_host(source, decodes):
    assert decodes_images(source) is decodes


def test_pipeline_in_closed_form_and_simulated():
    four = CLUSTER.with_gpus(4)
    for schedule in set(PipelineSchedule) - {PipelineSchedule.INTERLEAVED}:
        strategy = Strategy(pipeline=4, accumulation=16, schedule=schedule)
        same = [step_time(work(blocks=12), strategy, four, exact=exact).total_us for exact in (True, False)]
        assert same[0] == pytest.approx(same[1], rel=0.01)


def test_slowest_stage_has_the_head_or_a_block_more():
    # 32 blocks on 4 stages and a head of 2.4 blocks: 9, 9, 8 and 6 with the head.
    assert slowest_stage_us(32, 4, 10, 0, 24) == 90
    assert slowest_stage_us(30, 4, 10, 0, 24) == pytest.approx(84)
    assert slowest_stage_us(8, 2, 10, 0, 0) == 40
    assert slowest_stage_us(4, 2, 10, 0, 100) == 100


def test_range_has_the_step_inside_and_grows_with_communication():
    strategy = Strategy(data=8, sharding=Sharding.ZERO_3)
    step, found = step_range(work(), strategy, CLUSTER.with_gpus(8))
    assert found.low < step.total_us == found.value < found.high
    _, exposed = step_range(work(parameters=1e9), strategy, CLUSTER.with_gpus(8))
    assert exposed.half_width / exposed.value > found.half_width / found.value


def test_a_pass_takes_what_was_predicted_for_it_on_that_gpu(counted):
    model, kernels = transformer_named("gpt2"), KernelTimes(CLUSTER.gpu, counted)
    layers = replace(model.layers(Strategy()), known=KnownPass(CLUSTER.gpu.name, 1e9, 4e8))
    assert work_of(layers, kernels, Precision.MIXED).total_us == pytest.approx(1e9)


def test_on_another_gpu_kernels_keep_their_share_and_the_host_its_time(counted):
    layers = transformer_named("gpt2").layers(Strategy())
    there, here = (KernelTimes(gpu_named(name), counted) for name in ("v100-16gb", "h100"))
    sums = [work_of(layers, kernels, Precision.MIXED).total_us for kernels in (there, here)]
    known = KnownPass(there.gpu.name, 0.5 * sums[0] + 1e5, 0.5 * sums[0])
    found = work_of(replace(layers, known=known), here, Precision.MIXED)
    assert found.total_us == pytest.approx(0.5 * sums[1] + 1e5)


def test_tensor_parallelism_pays_for_its_reductions(counted):
    model = transformer_named("llama3-8b")
    kernels = KernelTimes(CLUSTER.gpu, counted)
    found = []
    for one in (Strategy(tensor=8), Strategy(tensor=8, async_tensor=True)):
        made = work_of(model.layers(one), kernels, one.precision)
        found.append(step_time(made, one, CLUSTER.with_gpus(8)).exposed_us)
    assert found[0] > found[1] > 0


def test_timeline_of_one_rank_takes_as_long_as_the_closed_form():
    strategy = Strategy(data=8, sharding=Sharding.ZERO_3)
    eight = CLUSTER.with_gpus(8)
    times = stream_times(work(), strategy, eight)
    graph = simulate(stream_graph(times, 1))
    closed = step_time(work(), strategy, eight, StepFactors(latency=0.0))
    assert graph.makespan_us == pytest.approx(closed.total_us, rel=0.03)
    assert times.forward_us == pytest.approx(1000 + CONTENTION.value * min(1000, times.gather_us))


def test_timeline_of_a_pipeline_has_a_lane_for_each_stage():
    strategy = Strategy(pipeline=4, accumulation=4)
    graph = strategy_graph(work(blocks=8), strategy, CLUSTER.with_gpus(4))
    assert graph.tasks.lanes == tuple(f"stage {stage}" for stage in range(4))


@pytest.mark.parametrize("schedule", [one for one in PipelineSchedule if one.flushes])
@pytest.mark.parametrize("sharding", [Sharding.NONE, Sharding.ZERO_3])
def test_the_timeline_of_a_pipeline_ends_with_the_step(schedule, sharding):
    chunks = 2 if schedule is PipelineSchedule.INTERLEAVED else 1
    strategy = Strategy(
        data=2, sharding=sharding, pipeline=4, accumulation=8, schedule=schedule, chunks=chunks
    )
    eight = CLUSTER.with_gpus(8)
    graph = strategy_graph(work(blocks=8), strategy, eight)
    told = step_time(work(blocks=8), strategy, eight)
    assert simulate(graph).makespan_us == pytest.approx(told.total_us, rel=1e-9)
    exchanged = select(graph, phase=Phase.COMMUNICATION)
    assert len(exchanged) == len(select(graph, phase=Phase.OPTIMIZER)) == 4
    assert graph.durations[exchanged].tolist() == pytest.approx([told.exposed_us] * 4)


def test_without_flushes_each_step_has_its_update_and_predicted_weights():
    eight = CLUSTER.with_gpus(8)
    flushed, flowing = (
        Strategy(data=2, pipeline=4, accumulation=4, schedule=one)
        for one in (PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.ASYNCHRONOUS)
    )
    told = [step_time(work(blocks=8), one, eight) for one in (flushed, flowing)]
    assert told[1].compute_us == told[0].compute_us
    assert told[1].bubble_us < 0.05 * told[0].bubble_us
    # Adam moves seven tensors, and the predicted weights are an eighth.
    assert told[1].optimizer_us == pytest.approx(8 / 7 * told[0].optimizer_us)
    graph = strategy_graph(work(blocks=8), flowing, eight)
    assert len(select(graph, phase=Phase.OPTIMIZER)) == 4 * 2
    ends = simulate(graph).iteration_ends_us()
    assert ends[1] - ends[0] == pytest.approx(told[1].total_us)


def test_the_largest_gradients_alone_are_faster_over_a_slow_link_and_need_memory():
    slow = cluster_named("two-desktops")
    dense, sparse = Strategy(data=2), Strategy(data=2, sent=0.01)
    times = [step_time(work(), one, slow) for one in (dense, sparse)]
    assert times[1].exposed_us < 0.1 * times[0].exposed_us
    # Choosing reads 4 GB eight times; 80 MB with their indices go to the other rank, under 20 ms of backward pass.
    choosing = 8 * 4e9 / (slow.gpu.bandwidth_gb_s * 1e3)
    assert times[1].exposed_us == pytest.approx(
        choosing + 80e6 / 875 - 20_000 * (1 - CONTENTION.value), rel=0.01
    )
    memory = [rank_memory(work().layers, one) for one in (dense, sparse)]
    assert memory[1].gradients == 2 * memory[0].gradients
    assert sparse.label().endswith("top-k 1.00% (changes convergence)")
