"""The sentence on several GPUs: the fastest, the cheapest, and whether it waits."""

from __future__ import annotations

from skyline.analysis.gpu_costs import GpuRunCost, Span
from skyline.interval import Interval
from skyline.memory.peak import Fit
from skyline.report.device_rows import DeviceReport, LargestBatchReport
from skyline.report.gpu_choice import gpu_choice

EPOCH = Span(True, 65536, 1024.0)


def on(
    gpu: str, time_s: float, usd: float | None, *, fits: Fit = Fit.FITS, busy_share: float = 0.9
) -> DeviceReport:
    exact = Interval.exact
    cost = exact(usd) if usd is not None else None
    run = GpuRunCost(
        64, exact(1), exact(1), 0, busy_share, exact(1), 1024.0, exact(time_s), cost, exact(1), exact(1)
    )
    largest = LargestBatchReport(64, True, False, "")
    return DeviceReport(gpu, gpu, False, 0, 0, fits.value, largest, run, None, (), 300, "", 0.0)


def test_the_fastest_and_the_cheapest() -> None:
    words = gpu_choice([on("L4", 40.0, 0.01), on("H100", 4.0, 0.012)], EPOCH)
    assert words == (
        "Fastest is the H100: an epoch of the unchanged script takes 4.00 s, $0.012. "
        "Cheapest is the L4: 40.0 s, $0.010."
    )


def test_the_cheaper_of_two_that_are_alike() -> None:
    words = gpu_choice([on("H200", 4.0, 0.02), on("H100", 4.01, 0.012), on("T4", 90.0, 0.02)], EPOCH)
    assert words == "Fastest and cheapest is the H100: an epoch of the unchanged script takes 4.01 s, $0.012."


def test_a_single_gpu_without_a_price() -> None:
    words = gpu_choice([on("Lab", 0.5, None)], Span(False, None, 1000.0))
    assert words == "Lab: 1,000 iterations of the unchanged script take 500 ms."


def test_a_gpu_that_waits() -> None:
    words = gpu_choice([on("H100", 4.0, 0.012, busy_share=0.2)], EPOCH)
    assert words.endswith(
        "The H100 computes for 20 % of the time: a larger batch or faster loading gains more than a faster GPU."
    )


def test_gpus_that_are_too_small() -> None:
    small = on("T4", 1.0, 0.001, fits=Fit.TOO_LARGE)
    assert gpu_choice([small, on("H100", 4.0, 0.012)], EPOCH).startswith("H100: an epoch")
    assert gpu_choice([small], EPOCH) == "The unchanged script fits on none of: T4."
