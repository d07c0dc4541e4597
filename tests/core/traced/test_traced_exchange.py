"""Gradients exchanged between GPUs, as a trace shows them."""

from __future__ import annotations

import pytest

from skyline.analysis.estimate import answer as answered
from skyline.errors import UsageError
from skyline.whatif.composition import detected_in
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs


@pytest.fixture
def exchanging(changed):
    """The last product of the backward pass, 120 µs, is an all-reduce instead."""

    def made(kernel="ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"):
        return changed(
            lambda event: {**event, "name": kernel} if event["name"] == "ampere_sgemm_nt" else event
        )

    return made


def test_half_the_data_takes_little_more_than_half_the_time(exchanging):
    recording = exchanging()
    found = answered(recording, (Choice("ddp_compression"),))
    assert found.value == "bf16"
    # The script waits for the value that is read behind it.
    assert found.change_ms.value == pytest.approx(-0.45 * 0.120, abs=0.005)
    assert found.change_ms.low == pytest.approx(-0.5 * 0.120, abs=0.006)
    assert found.change_ms.high > -0.03
    assert found.provenance == "assumed"
    with pytest.raises(UsageError, match="ddp_compression=int8"):
        answered(recording, (Choice("ddp_compression", "int8"),))


@pytest.mark.parametrize(
    "kernel",
    ["ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL()"],
)
def test_in_sixteen_bits_already(exchanging, kernel):
    assert "already" in whatifs()["ddp_compression"].detect(exchanging(kernel)).reason


def test_other_collectives_and_none_at_all(exchanging, gpu, cpu):
    for recording in (exchanging("ncclDevKernel_AllGather_RING_LL()"), gpu, cpu):
        assert "no all-reduce" in whatifs()["ddp_compression"].detect(recording).reason


@pytest.mark.parametrize(
    "name", ["ddp_bucket", "gradient_as_bucket_view", "static_graph", "sparse_embedding"]
)
def test_what_a_trace_does_not_tell(exchanging, name):
    assert "profile the script" in detected_in(exchanging(), whatifs()[name]).reason


def test_one_rank_says_that_its_waiting_is_as_recorded(exchanging, gpu):
    assert any("skyline ranks" in one for one in answered(exchanging(), (Choice("amp"),)).assumptions)
    assert not any("skyline ranks" in one for one in answered(gpu, (Choice("amp"),)).assumptions)
