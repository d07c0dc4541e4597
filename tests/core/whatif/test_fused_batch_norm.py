"""Batch normalization as part of the neighbouring convolutions: a graph solved by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.trace.record import OperatorShape, Phase
from skyline.whatif.baseline import baseline
from skyline.whatif.composition import compose, detected_in
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs

NUMBERS = 1_000_000
F, B = Phase.FORWARD, Phase.BACKWARD
KERNELS = [
    ("conv_fprop", F, 0, 2_000.0),
    ("batch_norm_fwd", F, 1, 400.0),
    ("relu_kernel", F, 2, 300.0),
    ("relu_kernel", F, 3, 100.0),
    ("threshold_backward_kernel", B, 3, 100.0),
    ("threshold_backward_kernel", B, 2, 300.0),
    ("batch_norm_bwd", B, 1, 800.0),
    ("conv_dgrad", B, 0, 4_000.0),
]
SHAPE = OperatorShape("aten::relu", ((1, NUMBERS),), ("float32",), ((1, NUMBERS),), ("float32",))


def test_normalization_takes_half_and_its_rectifiers_nothing(layered):
    """Of 8 ms the two neighbouring rectifiers (0.6) go, and half of 1.2; the other rectifiers stay."""
    found = answer(baseline(layered(KERNELS, SHAPE)), [Choice("fused_batch_norm")])
    assert found.reason is None
    assert 8.0 / found.speedup == pytest.approx(8.0 - 0.6 - 0.6, rel=0.01)
    assert found.provenance == "assumed"


def test_what_the_rectifier_kept_is_computed_again(layered):
    subject = baseline(layered(KERNELS, SHAPE))
    held = replace(subject, peak=replace(subject.peak, activations=10**8))
    after = compose(held, [Choice("fused_batch_norm")]).scenario.memory
    assert after.levels.peak().activations == pytest.approx(10**8 - 4 * NUMBERS)
    peak = after.peak_bytes
    assert peak.high - peak.value >= 4 * NUMBERS


def test_where_there_is_nothing_to_join(layered, profile):
    whatif = whatifs()["fused_batch_norm"]
    assert "nothing ran on a GPU" in detected_in(baseline(profile), whatif).reason
    plain = [one for one in KERNELS if "norm" not in one[0]]
    assert "no batch normalization" in detected_in(baseline(layered(plain, SHAPE)), whatif).reason
    dense = [one for one in KERNELS if "conv" not in one[0]]
    assert "no convolution" in detected_in(baseline(layered(dense, SHAPE)), whatif).reason
    forward = [one for one in KERNELS if one[1] is F]
    assert "folded into the weights" in detected_in(baseline(layered(forward, SHAPE)), whatif).reason


def test_not_together_with_the_compiler(layered):
    composed = compose(baseline(layered(KERNELS, SHAPE)), [Choice("fused_batch_norm"), Choice("compile")])
    assert len(composed.made) == 1
