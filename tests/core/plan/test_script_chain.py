from dataclasses import replace
from types import SimpleNamespace

import pytest

from skyline.plan.cluster import cluster_named
from skyline.plan.constant import FIXED_BYTES
from skyline.plan.kernel_time import KernelTimes
from skyline.plan.layers import KnownPass
from skyline.plan.pipeline_cut import cut, stage_layers
from skyline.plan.placement import GraphLayer, LayerGraph, StageLimits, place
from skyline.plan.rank_memory import largest_rank, rank_memory
from skyline.plan.script_chain import chain_of
from skyline.plan.script_layers import traced_program
from skyline.plan.search import Request, search
from skyline.plan.step import step_time
from skyline.plan.strategy import Precision, Recompute, Strategy
from skyline.plan.timeline import strategy_graph
from skyline.plan.work import work_of
from skyline.report.pages.plan import row_page
from skyline.report.plan import Terms, ranked
from skyline.simulate.engine import simulate
from skyline.trace.facts import BatchFact
from skyline.trace.record import OperatorShape, Phase, RecordKind

# A convolutional network: few rows of many columns behind many rows of few columns.
SIZES = {"stem": 64, "body.0": 512, "body.1": 256, "body.2": 256, "body.3": 128, "head": 32}


def product(rows):
    return OperatorShape(
        "aten::mm",
        ((rows, 1024), (1024, 1024)),
        ("float32",) * 2,
        ((rows, 1024),),
        ("float32",),
        rows << 21,
        rows << 13,
    )


def module(path, parameters=0, kept=0, class_name="Layer"):
    return SimpleNamespace(
        path=path,
        parameter_count=parameters,
        kept_bytes=kept,
        class_name=class_name,
        library=class_name == "Sequential",
    )


def modules():
    inner = [module(f"Net.{name}", 1000 * number, size) for number, (name, size) in enumerate(SIZES.items())]
    return [module("Net", 7, 2000), module("Net.body", 0, 1152, "Sequential"), *inner]


def profile(prediction=None):
    found = modules()
    names = [one.path for one in found]
    shapes = [product(size) for size in SIZES.values()]
    ahead = [(number + 2, number) for number in range(len(SIZES))]
    # The model itself computes after the last layer, and its gradient comes first.
    records = [
        SimpleNamespace(
            iteration=0, shape=shape, kind=RecordKind.KERNEL, phase=phase, module=place, duration_us=1.0
        )
        for phase, order in ((Phase.FORWARD, [*ahead, (0, 5)]), (Phase.BACKWARD, [(0, 5), *ahead[::-1]]))
        for place, shape in order
    ]
    trace = SimpleNamespace(
        iterations=[SimpleNamespace(index=0)], records=records, shapes=shapes, modules=names
    )
    return SimpleNamespace(
        trace=trace,
        modules=found,
        sources=(),
        batch_size=4,
        batch=BatchFact((), 4),
        script="/x/net.py",
        prediction=prediction,
    )


@pytest.fixture
def program():
    return traced_program(profile())


def test_modules_that_differ_are_a_chain(program):
    chain = program.whole.chain
    assert [part.name for part in chain] == list(SIZES)
    # A product has 2 * 1024 * 1024 FLOP for each row, and the model's own one belongs to the head.
    rows = [[shape.flops >> 21 for shape in part.forward] for part in chain]
    assert rows == [[64], [512], [256], [256], [128], [32, 32]]
    assert [[shape.flops >> 21 for shape in part.backward] for part in chain] == rows
    assert [part.parameters for part in chain] == [7, 1000, 2000, 3000, 4000, 5000]
    # The rest of the model's memory is kept for the loss.
    assert [part.saved_bytes for part in chain] == [64, 512, 256, 256, 128, 32 + 2000 - 1248]
    # The outputs of the layers before; the weight of a product is larger.
    assert [part.input_bytes for part in chain[1:]] == [size * 4096 for size in [64, 512, 256, 256, 128]]
    assert program.block_count == 6


def test_layers_that_take_turns_are_one():
    found = modules()
    turns = [("Net.stem", 1), ("Net.body.0", 2), ("Net.stem", 3), ("Net.head", 4)]
    forward = [(path, product(rows)) for path, rows in turns]
    chain = chain_of(found, forward, forward[::-1])
    assert [part.name for part in chain] == ["stem", "head"]
    assert len(chain[0].forward) == 3
    assert chain_of(found, forward[:1], ()) == ()
    found[2].kept_bytes = None
    assert chain_of(found, forward, ()) == ()


def test_the_passes_add_up_to_the_prediction(program, counted):
    gpu = cluster_named("dgx-a100").gpu
    known = KnownPass(gpu.name, 1e6, 4e5)
    work = work_of(replace(program.whole, known=known), KernelTimes(gpu, counted), Precision.MIXED)
    assert sum(part.total_us for part in work.chain) == pytest.approx(1e6) == work.total_us


def test_a_pipeline_is_cut_between_layers(program, counted):
    cluster = cluster_named("dgx-a100").with_gpus(2)
    found = search(program, [cluster], counted, Request(micro_batch=4))
    row = next(one for one in found.rows if one.strategy.pipeline == 2)
    # 64 + 512 before 256 + 256 + 128 + 64: a cut behind body.1 would have 832 on the first stage.
    assert row.strategy.stage_blocks == (2, 4)
    assert stage_layers(program.whole, row.strategy) == ("stem to body.0", "body.1 to head")
    assert (
        "interleaved stages need equal blocks"
        in search(program, [cluster_named("dgx-a100").with_gpus(4)], counted, Request(micro_batch=4)).refused
    )
    plan = ranked(program, cluster, found, counted, Terms(), 50)
    shown = next(one for one in plan.report.rows if one.strategy.pipeline == 2)
    assert shown.stage_layers == ("stem to body.0", "body.1 to head")
    page = str(row_page(plan.report, shown))
    assert "Layers of the stages: stem to body.0; body.1 to head." in page
    assert len(shown.stage_memory_bytes) == 2
    work = work_of(program.whole, KernelTimes(cluster.gpu, counted), row.strategy.precision)
    told = step_time(work, row.strategy, cluster)
    assert simulate(strategy_graph(work, row.strategy, cluster)).makespan_us == pytest.approx(told.total_us)
    first, second = (sum(one.total_us for one in part) for part in (work.chain[:2], work.chain[2:]))
    assert told.compute_us == pytest.approx(max(first, second) * row.strategy.accumulation)


def test_the_memory_of_a_stage_is_that_of_its_layers(program):
    strategy = Strategy(pipeline=3, accumulation=8, stage_blocks=(1, 2, 3))
    memory = [rank_memory(program.whole, strategy, stage) for stage in range(3)]
    # Adam in float32: 4 bytes for each parameter itself. 1F1B keeps 3, 2 and 1 micro-batches.
    assert [one.parameters for one in memory] == [4 * 7, 4 * 3000, 4 * 12000]
    assert [one.activations for one in memory] == [3 * 64, 2 * 768, 256 + 128 + 784]
    assert largest_rank(program.whole, strategy) == memory[2]
    again = replace(strategy, recompute=Recompute.SELECTIVE, stage_recomputed=(0, 2, 0))
    # Half of the activations of two micro-batches, and all of the larger layer once.
    assert rank_memory(program.whole, again, 1).activations == 768 + 512
    assert rank_memory(program.whole, again, 0) == memory[0]


def test_layers_that_fit_no_stage_are_spread_by_their_number(program, counted):
    cluster = cluster_named("dgx-a100").with_gpus(2)
    work = work_of(program.whole, KernelTimes(cluster.gpu, counted), Precision.MIXED)
    asked = Strategy(pipeline=2, accumulation=8, micro_batch=4, recompute=Recompute.FULL)
    found = cut(work, asked, cluster, FIXED_BYTES.value + 1.0)
    assert (found.stage_blocks, found.stage_recomputed) == ((3, 3), ())
    assert largest_rank(program.whole, found).peak_bytes > FIXED_BYTES.value + 1.0
    roomy = cut(work, asked, cluster, FIXED_BYTES.value + 1e6)
    assert (roomy.stage_blocks, roomy.recompute) == ((2, 4), Recompute.NONE)


def test_a_stage_of_layers_recomputes_where_it_must():
    layers = [GraphLayer(10.0, 0.0, 10.0, 3.0, 5.0)] * 4
    assert place(LayerGraph.chain(layers), StageLimits(30, (2.0, 1.0), recompute=True)).recomputed == (
        True,
        False,
    )
