from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from skyline.interval import Interval
from skyline.report import html
from skyline.report.basis import memory_remark, prediction_basis
from skyline.report.pages.profile import profile_page
from skyline.report.schema import ProfileReport
from skyline.report.terminal import print_document
from skyline.trace.facts import Device
from skyline.trace.profile import Prediction
from skyline.whatif.question import CurvePoint

BASIS = (
    "data-sheet peaks of the H100 and shares of peak calibrated on other GPUs (" + "and so on, " * 20 + ")"
)


@pytest.fixture
def predicted(profile_report: ProfileReport) -> ProfileReport:
    time = Interval(2.4, 1.21, 4.77)
    return replace(
        profile_report,
        mode="predicted",
        device=Device("NVIDIA H100 SXM 80 GB", "cuda"),
        iteration_ms=time,
        throughput=time.inverse(32_000_000),
        prediction=Prediction("H100", "roofline", BASIS, time, 0.2, largest_batch=1024, larger_untried=True),
    )


def test_the_number_comes_before_what_it_rests_on(predicted: ProfileReport) -> None:
    console = Console(file=io.StringIO(), width=80, highlight=False)
    print_document(profile_page(predicted, None), console)
    found = console.file.getvalue()
    number, short, whole = found.index("2.40 ms"), found.index("nothing was run"), found.index("data-sheet")
    assert number < short < found.index("Costliest lines") < found.index("Basis of the prediction") < whole
    assert max(len(line) for line in found.splitlines()) <= 80


def test_the_page_has_the_same_order(predicted: ProfileReport) -> None:
    page = html.render(predicted)
    assert page.index("<dd>") < page.index("nothing was run") < page.index("<li>Times of the GPU: data-sheet")
    assert "Basis of the prediction" not in html.render(replace(predicted, mode="measured", prediction=None))


def test_what_is_assumed_is_said_once(predicted: ProfileReport) -> None:
    assert sum("CUDA context" in remark for remark in prediction_basis(predicted)) == 1
    assert prediction_basis(replace(predicted, prediction=None)) == ()


@pytest.mark.parametrize(
    ("peak_bytes", "begins"),
    [
        (1e9, "It fits into the memory of the H100. "),
        (9e10, "It does not fit into the memory of the H100. "),
    ],
)
def test_the_largest_batch_is_named_in_a_whole_sentence(
    predicted: ProfileReport, peak_bytes: float, begins: str
) -> None:
    memory = replace(
        predicted.memory,
        peak_bytes=Interval.exact(peak_bytes),
        capacity_bytes=85_000_000_000,
        usable_bytes=80_000_000_000,
    )
    remark = memory_remark(replace(predicted, memory=memory, curve=()))
    assert remark == (
        f"{begins}The largest batch that fits 85 GB is 1024 "
        "(extrapolated from the traced sizes; larger ones were not tried)."
    )


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ({16: 100.0, 32: 180.0, 64: 299.0, 96: 301.0}, "; beyond 64 throughput grows by less than 2 %."),
        ({16: 100.0, 32: 180.0, 64: 240.0, 96: 301.0}, "; throughput grows up to there."),
        ({16: 100.0, 32: 180.0, 64: 181.0}, "; beyond 32 throughput grows by less than 2 % up to 64."),
        ({16: 100.0, 32: 90.0, 64: 150.0, 96: 80.0}, "; beyond 64 throughput grows by less than 2 %."),
        ({16: 100.0, 128: 500.0}, "traced at that size)."),
    ],
)
def test_the_size_beyond_which_throughput_hardly_grows(
    predicted: ProfileReport, rates: dict[int, float], said: str
) -> None:
    curve = tuple(
        CurvePoint(
            size, Interval.exact(1e3 * size / rate), Interval.exact(rate), Interval.exact(1e9), False, False
        )
        for size, rate in rates.items()
    )
    assert predicted.prediction is not None
    largest = replace(predicted.prediction, largest_batch=96, largest_batch_traced=True, larger_untried=False)
    memory = replace(predicted.memory, capacity_bytes=24_000_000_000)
    remark = memory_remark(replace(predicted, memory=memory, curve=curve, prediction=largest))
    assert "The largest batch that fits 24 GB is 96 (traced at that size)" in remark
    assert remark.endswith(said)
