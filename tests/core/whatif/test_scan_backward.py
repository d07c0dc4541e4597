"""The backward pass as a scan: passes of eight small layers solved by hand, and when it pays."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from skyline.analysis.estimate import answer
from skyline.errors import UsageError
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.trace.facts import ModuleFact
from skyline.trace.record import OperatorShape, Phase
from skyline.trace.tensor_values import LayerZeros, TensorValues
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.parallel.scan_backward import WHATIF
from skyline.whatif.composition import compose, detected_in
from skyline.whatif.cost.jacobian_scan import Jacobian, ScanDevice, best_depth, matrix_bytes, steps_in
from skyline.whatif.question import Choice

PAIR = Jacobian.of_layer(2, 2, 4, rows=1, density=1)
"""Two numbers in, two out: 8 operations for a gradient, 16 for a product of two such Jacobians."""


def test_passes_of_eight_layers_by_hand():
    # One device with 1 operation a µs, and 100 µs from a step to the next.
    alone = ScanDevice(1, 1, inf, 100).passes_us([PAIR] * 8)
    up, down = (100 + 4 * 16, 100 + 2 * 16, 100 + 16), (100 + 4 * 8, 100 + 2 * 8, 100 + 8)
    assert alone == [
        8 * 108,
        up[0] + 4 * 108 + down[0],
        sum(up[:2]) + 2 * 108 + sum(down[:2]),
        sum(up) + 108 + sum(down),
    ]
    assert best_depth(alone) == 1
    # On four devices a level takes as long as one of its products.
    several = ScanDevice(1, 1, inf, 100, devices=4).passes_us([PAIR] * 8)
    assert several == [864, 116 + 432 + 108, 2 * 116 + 216 + 2 * 108, 3 * 116 + 108 + 3 * 108]


def test_steps_grow_with_the_logarithm():
    assert [steps_in(1024, depth) for depth in (0, 1, 9, 10)] == [1024, 514, 20, 21]
    assert steps_in(5, 1) == 2 + 3


def test_an_odd_layer_stays_as_it_is():
    # Two pairs and a single one: two products, three groups, and down two gradients inside the pairs.
    assert ScanDevice(1, 1, inf, 0).passes_us([PAIR] * 5)[1] == 2 * 16 + 3 * 8 + 2 * 8


def test_products_of_sparse_layers_skip_zeros_and_fill_up():
    layer = Jacobian.of_layer(100, 100, 10_000, rows=3, density=0.1)
    assert layer.nonzeros == 1000
    assert layer.multiplications(layer) == 1000 * 1000 / 100
    # An entry is a sum of 100 terms, each of which is zero but for one in a hundred.
    filled = 10_000 * (1 - 0.99**100)
    assert layer.before(layer).nonzeros == pytest.approx(filled)
    assert PAIR.before(PAIR).nonzeros == 4
    # The layer's own operator skips nothing.
    assert ScanDevice(1, 1, inf, 0).passes_us([layer])[0] == 3 * 2 * 10_000
    assert matrix_bytes([layer, layer], 1) == pytest.approx(4 * 3 * (2000 + filled))
    assert matrix_bytes([layer, layer], 0) == 0


def test_pooling_takes_a_part_of_the_outputs():
    wide, narrow = (Jacobian.of_layer(8, 8, 64, 1, 1), Jacobian.of_layer(2, 4, 8, 1, 1))
    assert wide.multiplications(narrow) == 8 * 2 * 4


def test_windows_of_convolutions_grow_and_do_not_fill_the_image():
    # 3 of 30 positions each: together 12 of 900 pairs of places, four times the share of one.
    window = Jacobian.of_layer(30, 30, 90, 1, 1)
    assert window.support == 0.1
    assert window.before(window).support == pytest.approx(0.4)
    assert window.before(window).nonzeros <= 0.4 * 900


def vgg(density):
    """VGG-11 on images of 32 x 32 from its second layer on, for one image; pooling takes a quarter of some outputs."""

    def layer(inputs, outputs, side):
        numbers = side * side
        return Jacobian.of_layer(
            inputs * numbers, outputs * numbers, outputs * numbers * 9 * inputs, 1, density
        )

    sizes = (
        (64, 128, 16),
        (128, 256, 8),
        (256, 256, 8),
        (256, 512, 4),
        (512, 512, 4),
        (512, 512, 2),
        (512, 512, 2),
    )
    return [*(layer(*one) for one in sizes), Jacobian.of_layer(512, 10, 5120, 1, density)]


@pytest.mark.parametrize(
    ("density", "mflop"), [(1.0, 87_483), (0.1, 1_322), (0.05, 484), (0.03, 233), (0.01, 65)]
)
def test_the_arithmetic_in_a_row_of_a_pruned_network(density, mflop):
    """The table of the page: products at the rate of dense ones on a device for each layer, and free memory."""
    passes = ScanDevice(1, 1, inf, 0, devices=8).passes_us(vgg(density))
    assert passes[0] / 1e6 == pytest.approx(302, abs=0.5)
    assert passes[best_depth(passes)] / 1e6 == pytest.approx(mflop, rel=0.005)


def test_a_recurrent_network_of_the_paper_pays_on_one_device():
    """1000 steps of 20 units, 16 samples: 20 steps in a row, and little arithmetic."""
    passes = ScanDevice(4.7e6, 0.3e6, 900e3, 8.0).passes_us([Jacobian.of_layer(20, 20, 400, 16, 1)] * 1000)
    depth = best_depth(passes)
    assert steps_in(1000, depth) == 20
    assert passes[depth] < passes[0] / 20


def linear(rows, width):
    data, weight, flops = (rows, width), (width, width), 2 * rows * width * width
    return OperatorShape(
        "aten::linear", (data, weight), ("float32",) * 2, (data,), ("float32",), flops, 4 * rows * width
    )


def network(layers, forward_us, backward_us):
    forward = [("sgemm", Phase.FORWARD, layer, forward_us) for layer in range(layers)]
    return [*forward, *(("sgemm", Phase.BACKWARD, layer, backward_us) for layer in reversed(range(layers)))]


def test_a_dense_network_is_refused_with_the_arithmetic(layered):
    subject = baseline(layered(network(8, 300.0, 600.0), linear(64, 4096)))
    found = detected_in(subject, WHATIF)
    assert not found.applicable
    # 2 * 64 * 4096^3 in a product, 2 * 64 * 4096^2 in a gradient.
    assert "8.8e+03 GFLOP" in found.reason
    assert "a layer's gradient 2.15 GFLOP" in found.reason
    assert "on any number of devices" in found.reason


def test_a_long_chain_of_narrow_layers_gains_half_of_its_backward_pass_at_most(layered):
    subject = baseline(layered(network(64, 3.0, 6.0), linear(16, 20)))
    assert detected_in(subject, WHATIF).default == "1"
    before, after = subject.operators, compose(subject, [Choice("scan_backward", "1")]).scenario.graph
    kernels = select(before, kind=TaskKind.KERNEL, phase=Phase.BACKWARD)
    ratio = after.durations[kernels].sum() / before.durations[kernels].sum()
    # 64 steps of 3 µs become 12 with products of less than a µs; as long again for the weights.
    assert 0.5 + 0.5 * 12 / 64 < ratio < 0.5 + 0.5 * 16 / 64
    found = answer(subject, [Choice("scan_backward", "1")])
    assert (found.semantics, found.provenance) == ("numerics", "assumed")
    assert "64 layers or steps of one take 12 steps" in " ".join(found.assumptions)


def test_several_devices_have_to_be_named(layered):
    """On an A100 a product takes 23 µs and a step 8: 32 products take longer than the 64 steps, unless at once."""
    subject = baseline(layered(network(64, 10.0, 20.0), linear(64, 96)))
    found = detected_in(subject, WHATIF)
    assert found.applicable
    assert not found.default
    with pytest.raises(UsageError, match="several devices"):
        answer(subject, [Choice("scan_backward")])
    for value in ("0", "-1", "x", "1e3"):
        with pytest.raises(UsageError, match="not possible"):
            answer(subject, [Choice("scan_backward", value)])
    alone, many = (answer(subject, [Choice("scan_backward", value)]) for value in ("1", "64"))
    assert alone.speedup == pytest.approx(1.0)
    assert "the usual pass is the fastest" in " ".join(alone.assumptions)
    assert many.speedup > 1.1
    assert "messages take no time" in " ".join(many.assumptions)


def test_zeros_of_pruned_weights_count(layered):
    """Products of 1024 x 1024 are 4 GFLOP each; with 0.2 % of the weights left they are nearly free."""
    dense = layered(network(32, 20.0, 40.0), linear(2, 1024))
    assert not detected_in(baseline(dense), WHATIF).applicable
    zeros = tuple(LayerZeros(f"Net.{layer}", 1, 0.0, 0.998, 0.0) for layer in range(32))
    pruned = replace(dense, values=TensorValues(1, zeros=zeros))
    assert detected_in(baseline(pruned), WHATIF).applicable


def test_a_recurrent_layer_is_a_chain_of_its_steps(layered):
    rnn = OperatorShape(
        "aten::_cudnn_rnn", ((500, 16, 20), (20, 20)), ("float32",) * 2, ((500, 16, 20),), ("float32",), 0, 0
    )
    made = layered(network(1, 2000.0, 4000.0), rnn)
    fact = ModuleFact(
        "Net.0", "RNN", True, 800, True, {"hidden_size": 20, "num_layers": 1, "batch_first": True}
    )
    subject = baseline(replace(made, modules=(fact,)))
    assert detected_in(subject, WHATIF).default == "1"
    assert "500 layers or steps of one" in " ".join(
        answer(subject, [Choice("scan_backward", "1")]).assumptions
    )
    gates = replace(fact, class_name="LSTM", options={"hidden_size": 512})
    wide = baseline(replace(made, modules=(gates,)))
    assert "GFLOP" in detected_in(wide, WHATIF).reason


def test_reasons_where_there_is_no_chain(layered, profile):
    pairs = OperatorShape(
        "aten::bmm", ((8, 64, 64),) * 2, ("float32",) * 2, ((8, 64, 64),), ("float32",), 1, 1
    )
    found = detected_in(baseline(layered(network(2, 9.0, 9.0), pairs)), WHATIF)
    assert "bmm multiplies activations" in found.reason
    assert not detected_in(baseline(layered(network(1, 9.0, 9.0), linear(4, 4))), WHATIF).applicable
    assert not detected_in(baseline(profile), WHATIF).applicable
