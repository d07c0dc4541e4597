"""The recorded work on another GPU."""

from __future__ import annotations

import pytest

from skyline.analysis.estimate import answer as answered
from skyline.errors import UsageError
from skyline.predict.gpus import gpu_named
from skyline.whatif.catalogue.host.gpu import factor_of
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs

V100 = [{"id": 0, "name": "Tesla V100-SXM2-32GB", "computeMajor": 7, "computeMinor": 0}]


def answer(recording, *names):
    return answered(recording, tuple(map(Choice.parse, names)))


@pytest.fixture
def on_v100(changed):
    """The recording by hand, made on a V100."""
    return changed(lambda event: event, deviceProperties=V100)


def test_an_unnamed_gpu_is_asked_for(gpu, cpu) -> None:
    whatif = whatifs()["gpu"]
    assert "does not name its GPU" in whatif.detect(gpu).reason
    assert "nothing ran on a GPU" in whatif.detect(cpu).reason


def test_the_same_gpu_changes_nothing_and_others_do(on_v100) -> None:
    offered = whatifs()["gpu"].detect(on_v100)
    assert offered.applicable
    assert "H100" in offered.values
    assert answer(on_v100, "gpu=V100-SXM").change_ms.value == 0
    faster, slower = answer(on_v100, "gpu=h100"), answer(on_v100, "gpu=T4")
    assert faster.change_ms.value < 0 < slower.change_ms.value
    assert faster.semantics == "exact"
    assert faster.provenance == "modelled"
    assert any("host" in one for one in faster.assumptions)
    assert any("sizes of the products are not in a trace" in one for one in faster.assumptions)


def test_what_asks_for_the_recorded_gpu_is_not_asked_with_it(on_v100) -> None:
    found = answer(on_v100, "gpu=h100", "amp=fp16")
    assert not found.applicable
    assert "gpu" in (found.reason or "")


def test_a_gpu_that_nobody_knows_is_refused(on_v100) -> None:
    with pytest.raises(UsageError, match="no GPU called"):
        answer(on_v100, "gpu=h1000")


def test_kernels_scale_by_what_bounds_them() -> None:
    small, large = gpu_named("T4"), gpu_named("A100-80GB")
    passing = [factor_of("vectorized_elementwise_kernel", small, large, False, end) for end in range(3)]
    product = [factor_of("volta_sgemm_128x64_nn", small, large, True, end) for end in range(3)]
    on_units = [factor_of("turing_fp16_s1688gemm_fp16_128x128", small, large, True, end) for end in range(3)]
    for likely, least, most in (passing, product, on_units):
        assert 0 < least < likely < most < 1
    assert passing[0] == pytest.approx(320 / 1935, rel=0.3)
    # A T4 holds neither its peak in float32 nor in float16 for long.
    assert product[0] < 8.1 / 19.5
    assert factor_of("ncclKernel_AllReduce_RING_LL_Sum_float", small, large, False, 0) == 1.0


@pytest.mark.parametrize("published", ["kineto_2106_resnet50_workers0_run1"], indirect=True)
def test_real_traces(published) -> None:
    """A ResNet-50 that makes its own batches gets slower on a slow GPU, and hardly faster on any."""
    held = published.subject
    here = held.iteration_ms.value
    on_t4, on_h100 = answer(held, "gpu=T4"), answer(held, "gpu=H100")
    assert on_t4.applicable
    assert on_t4.iteration_ms.value > 1.5 * here
    # The script's own thread is busy all the time: with launches, and with making the batches.
    assert 0.9 * here < on_h100.iteration_ms.value <= here
    for one in (on_t4, on_h100):
        assert one.iteration_ms.low < one.iteration_ms.value < one.iteration_ms.high
