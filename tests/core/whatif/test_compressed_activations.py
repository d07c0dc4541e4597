"""Activations in fewer bits between the passes: conversions in a graph solved by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.errors import UsageError
from skyline.graph.selection import select
from skyline.trace.record import OperatorShape, Phase
from skyline.whatif.baseline import baseline
from skyline.whatif.composition import compose, detected_in
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs

NUMBERS = 100_000_000
GB_S = 2039.0


@pytest.fixture
def rectified(layered):
    kernels = [
        ("relu_kernel", Phase.FORWARD, 0, 1_000.0),
        ("relu_kernel", Phase.FORWARD, 1, 1_000.0),
        ("relu_backward", Phase.BACKWARD, 1, 1_000.0),
        ("relu_backward", Phase.BACKWARD, 0, 1_000.0),
    ]
    size = (1, NUMBERS)
    return layered(kernels, OperatorShape("aten::relu", (size,), ("float32",), (size,), ("float32",)))


@pytest.mark.parametrize(("value", "width"), [("fp16", 2), ("fp8", 1)])
def test_each_tensor_is_converted_there_and_back(rectified, value, width):
    """Two tensors of 100 million numbers: 4 and 2 bytes of each at 2,039 GB/s are 294 µs, four times."""
    subject = baseline(rectified)
    found = answer(subject, [Choice("compressed_activations", value)])
    assert found.reason is None
    expected_us = 4_000 + 4 * NUMBERS * (4 + width) / (GB_S * 1e3)
    assert 4.0 / found.speedup == pytest.approx(expected_us / 1e3, rel=0.01)
    graph = compose(subject, [Choice("compressed_activations", value)]).scenario.graph
    kernels = [graph.tasks[int(one)].name for one in select(graph, on_gpu=True, iteration=0)]
    assert kernels == [
        *("relu_kernel", "compress", "relu_kernel", "compress"),
        *("decompress", "relu_backward", "decompress", "relu_backward"),
    ]


def test_what_is_kept_shrinks_but_for_the_tensor_that_is_converted(rectified):
    subject = baseline(rectified)
    held = replace(subject, peak=replace(subject.peak, activations=10**9))
    after = compose(held, [Choice("compressed_activations", "fp8")]).scenario.memory
    assert after.levels.peak().activations == pytest.approx(10**9 - (2 * 3 - 4) * NUMBERS)
    peak = after.peak_bytes
    assert peak.value - peak.low >= 4 * NUMBERS


def test_values_and_refusals(rectified, profile):
    whatif = whatifs()["compressed_activations"]
    assert detected_in(baseline(rectified), whatif).values == ("fp16", "fp8")
    with pytest.raises(UsageError, match="not possible"):
        answer(baseline(rectified), [Choice("compressed_activations", "int3")])
    assert "nothing ran on a GPU" in detected_in(baseline(profile), whatif).reason
    shape = OperatorShape("aten::relu", ((1, NUMBERS),), ("bfloat16",))
    narrow = replace(rectified, trace=replace(rectified.trace, shapes=(shape,)))
    assert "no activation in float32" in detected_in(baseline(narrow), whatif).reason
