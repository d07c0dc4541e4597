"""Inputs of layers on the host until their backward pass: a graph solved by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.trace.record import OperatorShape, Phase
from skyline.whatif.baseline import baseline
from skyline.whatif.composition import compose, detected_in
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs

FORWARD_US, BACKWARD_US, LAYERS = 1_000.0, 2_000.0, 4
BYTES_PER_US = 0.8 * 32e3
"""Of 64 GB/s in both directions together, in one of them."""


def network(copied_us, layers=LAYERS):
    forward = [("conv_fprop", Phase.FORWARD, layer, FORWARD_US) for layer in range(layers)]
    backward = [("conv_dgrad", Phase.BACKWARD, layer, BACKWARD_US) for layer in reversed(range(layers))]
    numbers = round(copied_us * BYTES_PER_US / 4)
    size = (1, numbers)
    return [*forward, *backward], OperatorShape(
        "aten::convolution", (size,), ("float32",), (size,), ("float32",)
    )


@pytest.fixture
def asked(layered):
    def made(copied_us):
        subject = baseline(layered(*network(copied_us)))
        return subject, answer(subject, [Choice("offload_activations")])

    return made


def test_copies_that_fit_beside_the_layers_cost_nothing(asked):
    _, found = asked(500.0)
    assert not found.reason
    assert found.speedup == pytest.approx(1.0, abs=0.005)


def test_copies_of_four_ms_are_waited_for(asked):
    """The third layer waits for the first copy (5 ms); the third copy ends at 13 ms, is back at 17, and so on to 27."""
    subject, found = asked(4_000.0)
    assert 12.0 / found.speedup == pytest.approx(27.0, rel=0.01)
    assert found.speedup_range.low < found.speedup < found.speedup_range.high
    memory = compose(subject, [Choice("offload_activations")]).scenario.memory
    assert memory is not None


def test_memory_of_all_but_the_copies_under_way_is_saved(layered):
    subject = baseline(layered(*network(500.0)))
    held = replace(subject, peak=replace(subject.peak, activations=10**9))
    after = compose(held, [Choice("offload_activations")]).scenario.memory
    # Of three offloaded inputs two are on their way.
    assert after.levels.peak().activations == pytest.approx(10**9 - 500.0 * BYTES_PER_US)
    peak = after.peak_bytes
    assert peak.value - peak.low >= 2 * 500.0 * BYTES_PER_US


def test_small_inputs_and_single_layers_stay(layered):
    whatif = whatifs()["offload_activations"]
    small = detected_in(baseline(layered(*network(10.0))), whatif)
    assert "no layer keeps a large input" in small.reason
    assert not detected_in(baseline(layered(*network(500.0, layers=1))), whatif).applicable


def test_not_on_a_cpu(profile):
    assert "nothing ran on a GPU" in detected_in(baseline(profile), whatifs()["offload_activations"]).reason
