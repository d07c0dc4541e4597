"""The page and the JSON of a script on several GPUs, from profiles made by hand."""

from __future__ import annotations

import io
from dataclasses import replace

import msgspec
import pytest
from rich.console import Console

from skyline.analysis.gpu_costs import run_on, samples_of, span_of
from skyline.interval import Interval
from skyline.memory.peak import Fit, usable_elsewhere
from skyline.predict.gpus import gpu_named
from skyline.predict.largest_batch import LargestBatch
from skyline.predict.outlook import Outlook
from skyline.report.device_rows import DevicesReport
from skyline.report.devices import devices_report
from skyline.report.pages.devices import devices_page
from skyline.report.terminal import print_document
from skyline.trace.profile import Prediction, Profile


def predicted(profile: Profile, gpu: str, time_ms: float) -> Profile:
    said = Prediction(
        gpu, "told", f"figures of the {gpu}", Interval(time_ms, 0.8 * time_ms, 1.5 * time_ms), 0.0
    )
    return replace(profile, mode="predicted", prediction=said, trials=())


def outlook(profile: Profile, gpu: str, time_ms: float, fits: Fit, largest: LargestBatch) -> Outlook:
    spec = gpu_named(gpu)
    here = predicted(profile, spec.name, time_ms)
    fullest = None if fits is Fit.TOO_LARGE else here
    return Outlook(spec, here, usable_elsewhere(spec.memory_bytes), fits, largest, fullest)


@pytest.fixture
def report(profile: Profile) -> DevicesReport:
    """The script fits on the H100; nothing that was traced fits on the T4; no price of the MI100 is known."""
    found = (
        outlook(profile, "t4", 40.0, Fit.TOO_LARGE, LargestBatch(None)),
        outlook(profile, "h100", 4.0, Fit.FITS, LargestBatch(900, traced=False, larger_untried=True)),
        outlook(profile, "mi100", 9.0, Fit.FITS, LargestBatch(None, reason="nobody knows")),
    )
    return devices_report(found, grid_g_per_kwh=100.0)


def page(report: DevicesReport, width: int) -> str:
    written = io.StringIO()
    print_document(
        devices_page(report), Console(file=written, width=width, highlight=False, color_system=None)
    )
    return written.getvalue()


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_page_says_what_is_known_and_what_is_not(report: DevicesReport, width: int) -> None:
    text = page(report, width)
    assert max(map(len, text.splitlines())) <= width
    assert "~900+" in text
    assert "~ extrapolated, not traced; + larger ones were not tried" in text
    assert "Not even a batch of one fits on T4." in text
    assert "No largest batch: nobody knows." in text
    assert "no price known" in text
    assert "Fastest and cheapest is the H100: " in " ".join(text.split())
    assert "Times on T4, H100, MI100: figures of the GPU." in " ".join(text.split())
    assert ("samples/s there" in text) is (width == 160)


def test_gpus_of_equal_speed_are_ranked_by_cost(profile: Profile) -> None:
    """The fastest and the cheapest GPU are named; of equal times the cheaper GPU counts as the faster one."""

    def verdict(l4_ms: float) -> str:
        found = (
            outlook(profile, "h100", 4.0, Fit.FITS, LargestBatch(900)),
            outlook(profile, "l4", l4_ms, Fit.FITS, LargestBatch(64)),
        )
        return " ".join(page(devices_report(found), 160).split())

    assert "Fastest and cheapest is the L4: " in verdict(4.0)
    apart = verdict(8.0)
    assert "Fastest is the H100: " in apart
    assert ". Cheapest is the L4: " in apart
    assert "Cheapest" not in verdict(400.0)


def test_the_json_can_be_read_back(report: DevicesReport) -> None:
    assert msgspec.json.decode(msgspec.json.encode(report), type=DevicesReport) == report
    t4, h100, mi100 = report.devices
    assert (t4.fits, t4.fullest) == ("too large", None)
    assert h100.fullest == h100.as_is
    assert h100.as_is.cost_usd is not None
    assert mi100.as_is.cost_usd is None
    assert any("100 g/kWh" in said for said in report.assumptions)


def test_costs_are_for_an_epoch_where_its_size_is_known(profile: Profile) -> None:
    (loader, *_) = profile.loaders
    base = predicted(profile, "T4", 10.0)
    per_step = samples_of(base)
    assert per_step is not None
    assert loader.batch_size
    sized = replace(
        base, loaders=(replace(loader, dataset_size=loader.batch_size * 50, fetches_per_iteration=1.0),)
    )
    span = span_of(sized)
    assert (span.epoch, span.iterations) == (True, 50)
    assert run_on(sized, gpu_named("T4"), span, None, 0.0).time_s.value == pytest.approx(0.5)
    unknown = replace(base, loaders=(replace(loader, dataset_size=None),))
    assert span_of(unknown) == replace(
        span_of(unknown), epoch=False, samples=1000 * per_step, iterations=1000
    )
