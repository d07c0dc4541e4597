"""Only sizes of the model's own are padded, only where matrix units mind, and only their products change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.errors import UsageError
from skyline.trace.facts import ModuleFact, TorchSettings
from skyline.trace.record import BareTimes, IterationMark, Phase, Record, RecordKind, Trace
from skyline.whatif.base import Grain, Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models.alignment import element_bytes, odd_layers, padded
from skyline.whatif.catalogue.models.pad_to_multiple import WHATIF

SETTINGS = TorchSettings(matmul_precision="highest", autocast="bfloat16", compute_capability=(8, 0))


def layer(path, kind, **options):
    count = 1
    for size in options.values():
        count *= size
    return ModuleFact(path, kind, True, count, True, options)


TABLE = layer("Net.table", "Embedding", num_embeddings=50_257, embedding_dim=768)
HEAD = layer("Net.head", "Linear", in_features=768, out_features=50_257)
BODY = layer("Net.body", "Linear", in_features=768, out_features=768)


def trace_of(iterations=3):
    """Each iteration: products of the body and the head, 2 ms and 4 ms, and another kernel of 1 ms."""
    records, marks, clock, correlation = [], [], 0.0, 0
    kernels = [("gemm", 2000.0, 1), ("gemm", 4000.0, 2), ("elementwise", 1000.0, 2)]
    for iteration in range(iterations):
        begin = clock
        for name, took, module in kernels:
            correlation += 1
            records.append(
                Record("cudaLaunchKernel", RecordKind.RUNTIME, Phase.FORWARD, "main", iteration, clock, 5.0,
                       module=module, correlation=correlation)
            )  # fmt: skip
            records.append(
                Record(name, RecordKind.KERNEL, Phase.FORWARD, "stream 7", iteration, clock + 5, took,
                       module=module, correlation=correlation)
            )  # fmt: skip
            clock += took + 10
        records.append(
            Record("cudaStreamSynchronize", RecordKind.RUNTIME, Phase.OTHER, "main", iteration, clock, 5.0)
        )
        clock += 10
        marks.append(IterationMark(iteration, begin, clock))
    return Trace(tuple(marks), (), ("Net", "Net.body", "Net.head"), tuple(records))


@pytest.fixture
def language_model(gpu_profile):
    return replace(
        gpu_profile,
        trace=trace_of(),
        times=BareTimes((7.04,) * 9, (0.0,) * 9, (0.0,) * 9, (0.0,) * 9),
        modules=(TABLE, BODY, HEAD),
        settings=SETTINGS,
    )


def test_the_next_multiple():
    assert [padded(50_257, multiple) for multiple in (8, 64, 128)] == [50_264, 50_304, 50_304]
    assert padded(64, 64) == 64


def test_the_vocabulary_is_padded_where_it_is_predicted_and_where_it_is_looked_up(language_model):
    found = {
        one.module.path: (one.padded_outputs, one.padded_inputs) for one in odd_layers(language_model, 64)
    }
    assert found == {"Net.table": (50_304, 768), "Net.head": (50_304, 768)}


def test_what_the_data_fixes_stays(language_model):
    colours = layer("Net.first", "Conv2d", in_channels=3, out_channels=64)
    rows = layer("Net.users", "Embedding", num_embeddings=943, embedding_dim=64)
    features = layer("Net.dense", "Linear", in_features=13, out_features=512)
    classes = layer("Net.last", "Linear", in_features=512, out_features=7)
    changed = replace(language_model, modules=(colours, rows, features, classes))
    assert odd_layers(changed, 8) == ()
    # The outputs of a layer are the inputs of the next one.
    wide = layer("Net.one", "Linear", in_features=13, out_features=100)
    narrow = layer("Net.two", "Linear", in_features=100, out_features=512)
    found = odd_layers(replace(language_model, modules=(wide, narrow)), 8)
    assert [(one.padded_inputs, one.padded_outputs) for one in found] == [(13, 104), (104, 512)]


def test_products_of_the_odd_layer_change_and_nothing_else(language_model):
    start = baseline(language_model)
    found = WHATIF.detect(start)
    assert found.values == ("8", "64", "128")
    assert found.default == "8"
    scenario = Scenario.of(start, Grain.OPERATORS)
    changed = WHATIF.transform(scenario, "64", start)
    ratio = changed.graph.durations / scenario.graph.durations
    names = [scenario.graph.tasks[i].name for i in range(len(ratio)) if ratio[i] < 0.99]
    assert names == ["gemm"] * 3
    assert start.step_ms(scenario.graph) - start.step_ms(changed.graph) == pytest.approx(4 * 0.4, rel=0.02)
    assert changed.above_ms >= 4 * 0.4 * 0.99  # at worst it only costs
    grown = changed.memory.parameters - scenario.memory.parameters
    assert grown == pytest.approx(4 * 2 * 47 * 768, rel=0.01)


def test_with_aligned_sizes_larger_multiples_bring_little(language_model):
    aligned = replace(HEAD, options={"in_features": 768, "out_features": 50_264})
    start = baseline(replace(language_model, modules=(aligned,)))
    assert WHATIF.detect(start).values == ("64", "128")
    changed = WHATIF.transform(Scenario.of(start, Grain.OPERATORS), "64", start)
    assert start.step_ms(changed.graph) > 0.97 * start.step_ms(start.operators)


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        (SETTINGS, 2),
        (replace(SETTINGS, autocast="", matmul_precision="high"), 4),
        (replace(SETTINGS, autocast=""), 0),
        (None, 0),
    ],
)
def test_what_matrix_units_multiply(language_model, settings, size):
    assert element_bytes(replace(language_model, settings=settings)) == size


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"modules": ()}, "not known"),
        ({"settings": None}, "not known"),
        ({"settings": replace(SETTINGS, compute_capability=(6, 1))}, "no matrix units"),
        ({"settings": replace(SETTINGS, autocast="")}, "without TF32"),
        ({"modules": (BODY,)}, "multiples of 8"),
        ({"modules": (replace(HEAD, path="Net.elsewhere"),)}, "no product"),
    ],
)
def test_why_not(language_model, change, said):
    found = WHATIF.detect(baseline(replace(language_model, **change)))
    assert not found.applicable
    assert said in found.reason


def test_a_cpu_does_not_mind(profile):
    made = replace(profile, modules=(TABLE, HEAD), settings=SETTINGS)
    assert "on a CPU" in WHATIF.detect(baseline(made)).reason


@pytest.mark.parametrize("value", ["0", "seven", "4096"])
def test_a_multiple_is_a_number_within_reason(language_model, value):
    start = baseline(language_model)
    with pytest.raises(UsageError, match="pad_to_multiple="):
        WHATIF.transform(Scenario.of(start, Grain.OPERATORS), value, start)
