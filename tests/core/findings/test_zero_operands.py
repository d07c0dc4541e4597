from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.findings.zero_operands import RULE
from skyline.trace.facts import ModuleFact
from skyline.trace.tensor_values import LayerZeros, TensorValues

OPTIONS = {"in_features": 512, "out_features": 512}


@pytest.fixture
def network(gpu_script):
    """Two products of 3 ms in an iteration."""

    def made(*layers, kernel="ampere_sgemm_128x64"):
        script = gpu_script([(kernel, 3000.0)] * 2)
        module = ModuleFact(
            "Net.first", "Linear", True, 512 * 512, True, OPTIONS, created_line=script.trace.lines[2]
        )
        return replace(script, modules=(module,), values=TensorValues(1, zeros=layers))

    return made


def test_each_product_skips_by_its_factor_with_more_zeros(network, checked):
    """Inputs 80 %, gradients 60 %, weights 10 %: of the three products 80, 60 and 80 % are skipped."""
    script = network(LayerZeros("Net.first", 1000, 0.8, 0.1, 0.6))
    found = checked(RULE, script)
    assert found.title == "73 % of the multiplications of 1 layer have a zero as a factor"
    assert (found.line, found.cost_ms, found.whatif) == (script.trace.lines[2].line, 0.0, None)
    assert found.evidence[0].text.endswith("inputs 80 %, gradients of results 60 %, weights 10 %")
    assert "would save 4.40 ms of the 6.00 ms" in found.evidence[1].text
    assert "would save 2.00 ms" in found.evidence[2].text


def test_layers_count_by_their_multiplications(network, checked):
    dense, sparse = LayerZeros("Net.last", 9000, 0.0, 0.0, 0.0), LayerZeros("Net.first", 1000, 0.9, 0.0, 0.9)
    assert checked(RULE, network(dense, sparse)) is None
    found = checked(RULE, network(replace(dense, multiplications=100), sparse))
    assert found.title.startswith("82 % of the multiplications of 2 layers")


def test_without_products_or_zeros_nothing_is_said(network, checked, profile):
    layer = LayerZeros("Net.first", 1000, 0.8, 0.1, None)
    assert checked(RULE, network(layer, kernel="elementwise_kernel")) is None
    assert checked(RULE, network()) is None
    assert checked(RULE, profile) is None
