"""Channels of every layer but the last become fewer: sizes as torch-pruning leaves them, times solved by hand."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from skyline.analysis.estimate import answer
from skyline.errors import UsageError
from skyline.predict.gpus import gpu_named
from skyline.predict.registry import predictor_for
from skyline.predict.tile_shares import product_uses, tile_shares
from skyline.trace.facts import ModuleFact, ParallelFact, TorchSettings
from skyline.trace.record import BareTimes, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.units import format_share
from skyline.whatif.base import Grain, Provenance, Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models.prune import WHATIF
from skyline.whatif.catalogue.models.pruned_sizes import Cut, PrunedLayer, example_size, last_layer, pruned
from skyline.whatif.composition import compose, detected_in
from skyline.whatif.cost.thread_scaling import CALL_US
from skyline.whatif.question import Choice

F, B, S = Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER
IMAGE, MIDDLE, DEEP = (8, 3, 32, 32), (8, 16, 32, 32), (8, 32, 32, 32)
FIRST, SECOND, LAST = (16, 3, 3, 3), (32, 16, 3, 3), (10, 32)


def layer(path: str, kind: str, count: int, **options) -> ModuleFact:
    return ModuleFact(path, kind, True, count, True, options)


NETWORK = (
    ModuleFact("Net", "Net", False, 0, False, {}),
    layer("Net.one", "Conv2d", prod(FIRST), in_channels=3, out_channels=16, kernel_size=(3, 3), groups=1, bias=False),
    layer("Net.norm", "BatchNorm2d", 32, num_features=16),
    layer("Net.two", "Conv2d", prod(SECOND), in_channels=16, out_channels=32, kernel_size=(3, 3), groups=1, bias=False),
    layer("Net.head", "Linear", prod(LAST) + 10, in_features=32, out_features=10, bias=True),
)  # fmt: skip
PATHS = ("Net", "Net.one", "Net.norm", "Net.two", "Net.head")
# Operator, kernel, phase, µs, module, sizes of the inputs, arithmetic.
WORK = [
    ("aten::conv2d", "fprop", F, 1000.0, 1, (IMAGE, FIRST), 7_077_888),
    ("aten::batch_norm", "batch_norm", F, 400.0, 2, (MIDDLE, (16,), (16,)), 0),
    ("aten::relu", "relu", F, 200.0, 0, (MIDDLE,), 0),
    ("aten::conv2d", "fprop", F, 2000.0, 3, (MIDDLE, SECOND), 75_497_472),
    ("aten::mean", "reduce", F, 100.0, 0, (DEEP,), 0),
    ("aten::linear", "gemm", F, 50.0, 4, ((8, 32), LAST, (10,)), 5_120),
    ("aten::cross_entropy_loss", "loss", F, 40.0, -1, ((8, 10), (8,)), 0),
    ("AddmmBackward0", "gemm", B, 100.0, 4, ((8, 10), LAST), 10_240),
    ("ConvolutionBackward0", "dgrad", B, 4000.0, 3, (DEEP, MIDDLE, SECOND), 150_994_944),
    ("NativeBatchNormBackward0", "batch_norm_backward", B, 800.0, 2, (MIDDLE, MIDDLE, (16,)), 0),
    ("ConvolutionBackward0", "wgrad", B, 2000.0, 1, (MIDDLE, IMAGE, FIRST), 14_155_776),
    ("aten::add_", "add", S, 100.0, -1, (SECOND, SECOND), 0),
    ("aten::add_", "add", S, 5.0, -1, (FIRST, FIRST), 0),
]  # fmt: skip
SETTINGS = TorchSettings(matmul_precision="highest", autocast="bfloat16", compute_capability=(8, 0))


def trace(on_gpu: bool = False) -> Trace:
    """Three iterations of the work, as operators or as kernels that the host launches in 5 µs each."""
    shapes = tuple(
        OperatorShape(
            name
            if "Backward" not in name
            else "aten::convolution_backward"
            if "Conv" in name
            else f"aten::{kernel}",
            sizes,
            ("bfloat16" if on_gpu else "float32",) * len(sizes),
            flops=flops,
        )
        for name, kernel, *_, sizes, flops in WORK
    )
    records: list[Record] = []
    marks: list[IterationMark] = []
    now, number = 0.0, 0
    for index in range(3):
        begin = free = now
        for row, (name, kernel, phase, took, module, *_) in enumerate(WORK):
            if not on_gpu:
                records.append(
                    Record(
                        name, RecordKind.OPERATOR, phase, "main", index, now, took, module=module, shape=row
                    )
                )
                now += took
                continue
            number += 1
            launch = Record(
                "cudaLaunchKernel", RecordKind.RUNTIME, phase, "main", index, now, 5.0, module=module
            )
            free = max(free, now + 5.0)
            done = Record(
                kernel, RecordKind.KERNEL, phase, "stream 7", index, free, took, module=module, shape=row
            )
            records += [replace(launch, correlation=number), replace(done, correlation=number)]
            free, now = free + took, now + 5.0
        if on_gpu:
            wait = free - now + 8
            records.append(
                Record("cudaStreamSynchronize", RecordKind.RUNTIME, Phase.OTHER, "main", index, now, wait)
            )
            now += wait
        marks.append(IterationMark(index, begin, now))
    return Trace(tuple(marks), (), PATHS, tuple(records), shapes=shapes)


@pytest.fixture
def network(profile):
    """On a processor without known instruction sets: vectors of four."""
    whole, back, step = (sum(one[3] for one in WORK if one[2] in of) / 1e3 for of in ((F, B, S), (B,), (S,)))
    return replace(
        profile,
        trace=trace(),
        times=BareTimes((whole,) * 9, (0.0,) * 9, (back,) * 9, (step,) * 9),
        modules=NETWORK,
        trials=(),
        loaders=(),
    )


@pytest.fixture
def on_gpu(on_a100):
    whole = sum(one[3] for one in WORK) / 1e3
    return replace(on_a100(trace(True), whole, 0.01, 0.0), modules=NETWORK, settings=SETTINGS)


def changed(profile, value: str):
    """The durations of one iteration before and after, and the changed scenario."""
    start = baseline(profile)
    before = Scenario.of(start, Grain.OPERATORS)
    after = WHATIF.transform(before, value, start)
    return before.graph, after


def by_name(graph, scenario) -> dict[tuple[str, int], tuple[float, float]]:
    tasks = graph.tasks
    return {
        (tasks.names[tasks.name[at]], int(tasks.module[at])): (
            float(graph.durations[at]),
            float(scenario.graph.durations[at]),
        )
        for at in np.flatnonzero(tasks.iteration == 1).tolist()
    }


def test_numbers_are_rounded_as_torch_pruning_rounds_them():
    assert [Cut(0.3).kept(one) for one in (16, 32, 64, 10, 1)] == [11, 22, 44, 7, 1]
    assert [Cut(0.3, 8).kept(one) for one in (16, 32, 64)] == [8, 16, 40]
    assert Cut(0.3, 16).kept(16) == 16  # none would stay
    assert Cut(0.3).kept(128, groups=32) == 64  # two of four in each group
    assert Cut.parse("0.3:8") == Cut(0.3, 8)
    assert str(Cut(0.3, 8)) == "0.3:8"


@pytest.mark.parametrize(
    "value", ["", "0", "1", "-0.1", "nan", "half", "0.3:", "0.3:0", "0.3:x", "0.3:99999"]
)
def test_a_ratio_is_a_share(network, value):
    with pytest.raises(UsageError, match="prune="):
        changed(network, value)


def test_inputs_and_the_last_outputs_stay(network):
    model = pruned(network, Cut(0.5))
    assert {path: (one.kept_inputs, one.kept_outputs) for path, one in model.layers.items()} == {
        "Net.one": (3, 8),
        "Net.two": (8, 16),
        "Net.head": (16, 10),
    }
    assert last_layer(network) == "Net.head"
    assert example_size(network) == IMAGE
    left = 8 * 3 * 9 + 16 + 16 * 8 * 9 + 16 * 10 + 10
    assert model.parameter_share(NETWORK) == pytest.approx(left / sum(one.parameter_count for one in NETWORK))


def test_each_operator_shrinks_with_its_sizes(network):
    """At half the channels: a quarter of the inner products, half of the outer ones and of what only moves numbers."""
    found = by_name(*changed(network, "0.5"))
    wanted = {
        ("aten::conv2d", 1): 0.5,
        ("aten::batch_norm", 2): 0.5,
        ("aten::relu", 0): 0.5,
        ("aten::conv2d", 3): 0.25,
        ("aten::linear", 4): 0.5,
        ("ConvolutionBackward0", 3): 0.25,
        ("ConvolutionBackward0", 1): 0.5,
        ("NativeBatchNormBackward0", 2): 0.5,
        ("aten::cross_entropy_loss", -1): 1.0,
    }
    for key, factor in wanted.items():
        before, after = found[key]
        standing = min(CALL_US, 0.5 * before)
        assert after == pytest.approx(standing + factor * (before - standing), rel=1e-3), key
    before, after = found["aten::add_", -1]
    assert 0.2 * before < after < before


def test_the_answer_says_what_is_left_and_what_it_may_cost(network):
    found = answer(baseline(network), [Choice("prune", "0.5")])
    assert (found.reason, found.provenance, found.semantics) == (None, "modelled", "model")
    assert found.speedup > 2
    assert found.iteration_ms.low < found.iteration_ms.value < found.iteration_ms.high
    words = " ".join(found.assumptions)
    assert "outputs of Net.head stay" in words
    assert "6 equal stretches" in words
    assert "calibration" in words
    assert "vectors" not in words  # 8 and 16 are multiples of four
    assert found.peak_bytes.value < baseline(network).peak.total


def test_a_gradual_schedule_lies_between_nothing_and_all(network):
    subject = baseline(network)
    _, after = changed(network, "0.5")
    (words,) = (one for one in after.assumptions if "gradual schedule" in one)
    mean = float(words.split("takes ")[1].split(" ms")[0])
    assert subject.step_ms(after.graph) < mean < subject.step_ms(subject.operators)


def test_vectors_that_are_not_full_are_computed_all_the_same(network):
    """11 of 16 channels fill a vector of 16 as 16 do; multiples of 16 are the cure."""
    wide = replace(network, environment=replace(network.environment, cpu_features=("avx2", "avx512f")))
    found = by_name(*changed(wide, "0.3"))
    assert found["aten::conv2d", 3][1] == pytest.approx(found["aten::conv2d", 3][0])
    _, after = changed(wide, "0.3")
    (words,) = (one for one in after.assumptions if "vectors" in one)
    assert "prune=0.3:16 keeps multiples" in words
    assert after.below_ms > 0
    _, rounded = changed(wide, "0.3:16")
    assert not any("vectors" in one for one in rounded.assumptions)
    assert baseline(wide).step_ms(rounded.graph) < baseline(wide).step_ms(after.graph)


def test_vectors_that_are_as_empty_as_before_are_not_spoken_of(network, monkeypatch):
    """From one number to 128 and back: 90 of 128 channels fill 12 % of the vectors of eight, as all do."""
    up, down = (128, 1), (1, 128)
    work = [
        ("aten::linear", "gemm", F, 500.0, 1, ((256, 1), up, (128,)), 65_536),
        ("aten::linear", "gemm", F, 500.0, 2, ((256, 128), down, (1,)), 65_536),
        ("AddmmBackward0", "gemm", B, 1000.0, 2, ((256, 1), down), 131_072),
    ]
    monkeypatch.setitem(globals(), "WORK", work)
    monkeypatch.setitem(globals(), "PATHS", ("Net", "Net.up", "Net.down"))
    modules = (
        ModuleFact("Net", "Net", False, 0, False, {}),
        layer("Net.up", "Linear", 256, in_features=1, out_features=128, bias=True),
        layer("Net.down", "Linear", 129, in_features=128, out_features=1, bias=True),
    )
    narrow = replace(
        network,
        trace=trace(),
        modules=modules,
        environment=replace(network.environment, cpu_features=("avx2",)),
    )
    _, after = changed(narrow, "0.3")
    assert any("of the parameters" in one for one in after.assumptions)
    assert not any("vectors" in one for one in after.assumptions)


def test_kernels_take_what_the_predictor_says_of_both_sizes(on_gpu):
    whole = replace(on_gpu, settings=replace(SETTINGS, autocast=""))
    found = by_name(*changed(whole, "0.5"))
    model = pruned(whole, Cut(0.5))
    shape = whole.trace.shapes[3]
    spec = gpu_named("A100-SXM4-80GB")
    then = model.shape(shape, model.layers["Net.two"])
    assert then.inputs == ((8, 8, 32, 32), (16, 8, 3, 3))
    assert then.flops == shape.flops // 4
    before_us, after_us = (one.time_us.value for one in predictor_for(spec).predict((shape, then), spec))
    before, after = found["fprop", 3]
    assert after / before == pytest.approx(after_us / before_us)
    assert found["loss", -1][0] == found["loss", -1][1]


def test_matrix_units_mind_sizes_that_pruning_makes_odd(on_gpu):
    _, after = changed(on_gpu, "0.3")
    (words,) = (one for one in after.assumptions if "SKY303" in one)
    assert "2 of 3 layers" in words
    assert "such as 11" in words
    assert "prune=0.3:8" in words
    _, rounded = changed(on_gpu, "0.3:8")
    assert not any("SKY303" in one for one in rounded.assumptions)
    subject = baseline(on_gpu)
    assert subject.step_ms(rounded.graph) < subject.step_ms(after.graph)


def test_tiles_and_waves_are_told_before_and_after(on_gpu):
    """Each product weighs by its arithmetic; the shares are those of the installed predictor."""
    _, after = changed(on_gpu, "0.5")
    (words,) = (one for one in after.assumptions if "tiles" in one)
    spec = gpu_named("A100-SXM4-80GB")
    model = pruned(on_gpu, Cut(0.5))
    now, then = [], []
    for (_, _, _, _, module, _, flops), shape in zip(WORK, on_gpu.trace.shapes, strict=True):
        layer = model.layers.get(PATHS[module]) if module >= 0 else None
        if flops and layer is not None:
            now.append((float(flops), shape))
            smaller = model.shape(shape, layer)
            then.append((float(smaller.flops), smaller))
    before, left = (tile_shares(product_uses(each, spec)) for each in (now, then))
    assert f"fill {format_share(left.filled)} of their tiles, now {format_share(before.filled)}" in words
    assert f"{format_share(left.busy)} of the multiprocessors' time has a tile" in words
    assert f"now {format_share(before.busy)}" in words


def test_depthwise_and_grouped_convolutions():
    deep = layer("a", "Conv2d", 64 * 9, in_channels=64, out_channels=64, groups=64, kernel_size=(3, 3))
    each = PrunedLayer(deep, 64, 64, 44, 44)
    assert each.arithmetic() == pytest.approx(44 / 64)
    assert each.resized((64, 1, 3, 3)) == (44, 1, 3, 3)
    assert each.resized((8, 64, 9, 9)) == (8, 44, 9, 9)
    grouped = replace(deep, options={**deep.options, "groups": 4})
    each = PrunedLayer(grouped, 64, 64, 44, 44)
    assert each.arithmetic() == pytest.approx((44 / 64) ** 2)
    assert each.resized((64, 16, 3, 3)) == (44, 11, 3, 3)


def test_multiples_in_groups_are_not_possible(network):
    grouped = replace(NETWORK[3], options={**NETWORK[3].options, "groups": 4})
    made = replace(network, modules=(*NETWORK[:3], grouped, NETWORK[4]))
    assert pruned(made, Cut(0.3)).layers["Net.two"].kept_outputs == 20
    with pytest.raises(UsageError, match="grouped convolutions"):
        changed(made, "0.3:8")


def with_shape(profile, name: str, *sizes):
    """With one more operator in the forward pass, before the second convolution."""
    of = profile.trace
    shape = OperatorShape(name, sizes, ("float32",) * len(sizes))
    more = tuple(
        Record(
            name,
            RecordKind.OPERATOR,
            F,
            "main",
            mark.index,
            mark.start_us + 1590.0,
            1.0,
            module=0,
            shape=len(WORK),
        )
        for mark in of.iterations
    )
    return replace(profile, trace=replace(of, records=(*of.records, *more), shapes=(*of.shapes, shape)))


REPLICAS = ParallelFact("DistributedDataParallel", "gloo", 2, 25.0, False, False, False)
REASONS = {
    "no modules": (lambda one: replace(one, modules=()), "not known"),
    "two models": (lambda one: replace(one, modules=(*NETWORK, replace(NETWORK[0], path="Other"))), "more than one"),
    "replicas": (lambda one: replace(one, parallel=REPLICAS), "replicas"),
    "tables": (lambda one: replace(one, modules=(*NETWORK, layer("Net.t", "Embedding", 9))), "Embedding depend on"),
    "attention": (lambda one: with_shape(one, "aten::matmul", (8, 4, 9, 9), (8, 4, 9, 9)), "attention"),
    "padded": (lambda one: with_shape(one, "aten::pad", (8, 8, 32, 32)), "pads channels"),
    "one layer": (lambda one: replace(one, modules=(NETWORK[0], NETWORK[4])), "no layer lies between"),
}  # fmt: skip


@pytest.mark.parametrize("name", REASONS)
def test_why_not(network, name):
    change, said = REASONS[name]
    found = detected_in(baseline(change(network)), WHATIF)
    assert not found.applicable
    assert said in found.reason


def test_padding_of_the_picture_is_no_padding_of_channels(network):
    assert detected_in(baseline(with_shape(network, "aten::pad", (8, 16, 30, 30))), WHATIF).applicable


def test_not_together_with_padding(on_gpu):
    odd = replace(NETWORK[1], options={**NETWORK[1].options, "out_channels": 18})
    made = replace(on_gpu, modules=(NETWORK[0], odd, *NETWORK[2:]))
    composed = compose(baseline(made), [Choice("prune", "0.3"), Choice("pad_to_multiple", "8")])
    assert len(composed.made) == 1


def test_the_rest_of_the_answer_is_modelled(network):
    _, after = changed(network, "0.3")
    assert after.provenance is Provenance.MODELLED
