from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.findings.value_widths import RULE
from skyline.trace.facts import ModuleFact
from skyline.trace.tensor_values import LayerWidths, TensorValues, ValueWidths

NARROW = ValueWidths(1000, 4.0, 0.9, 0.75)
WIDE = ValueWidths(1000, 13.0, 0.1, 0.0)


@pytest.fixture
def network(gpu_script):
    """Two products of 3 ms in an iteration."""

    def made(*layers, kernel="ampere_sgemm_128x64"):
        script = gpu_script([(kernel, 3000.0)] * 2)
        module = ModuleFact(
            "Net.first", "Linear", True, 512 * 512, True, {}, created_line=script.trace.lines[2]
        )
        return replace(script, modules=(module,), values=TensorValues(1, widths=layers))

    return made


def test_values_count_by_their_number(network, checked):
    """4000 values of 4 bits and 1000 of 13: 5.8 bits on average; of 10 kB in 16 bits 6.4 kB go."""
    many = replace(NARROW, numbers=3000)
    script = network(LayerWidths("Net.first", many, WIDE, NARROW))
    found = checked(RULE, script)
    assert found.title == "values of 1 layer need 5.8 of 16 bits on average"
    assert (found.line, found.cost_ms, found.whatif) == (script.trace.lines[2].line, 0.0, None)
    assert "inputs: 90 % in 8 bits, 75 % in 4, 4.0 bits on average; weights: 10 % in 8 bits" in (
        found.evidence[0].text
    )
    assert "6.4 kB of 10.0 kB" in found.evidence[1].text


def test_wide_values_and_little_arithmetic_are_left_alone(network, checked, profile):
    assert checked(RULE, network(LayerWidths("Net.first", WIDE, WIDE, NARROW))) is None
    assert (
        checked(RULE, network(LayerWidths("Net.first", NARROW, NARROW), kernel="elementwise_kernel")) is None
    )
    assert checked(RULE, network()) is None
    assert checked(RULE, profile) is None


def test_without_gradients_theirs_are_unknown(network, checked):
    found = checked(RULE, network(LayerWidths("Net.first", NARROW, NARROW)))
    assert found.evidence[0].text.endswith("gradients of results: unknown")
