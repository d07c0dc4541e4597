from __future__ import annotations

from dataclasses import replace

from skyline.report.basis import basis_parts, headline, measured_range, recording_remarks
from skyline.report.schema import ProfileReport
from skyline.trace.facts import Device


def test_headline(profile_report: ProfileReport) -> None:
    assert headline(profile_report) == "182.4 ms ±2.1 per iteration · 175 samples/s · peak 1.9 of 24.0 GB"


def test_headline_without_what_is_not_known(profile_report: ProfileReport) -> None:
    memory = replace(profile_report.memory, capacity_bytes=None)
    report = replace(profile_report, throughput=None, memory=memory, mode="predicted")
    assert headline(report) == "182.4 ms ±2.1 per iteration (predicted) · peak 1.9 GB"


def test_basis_names_machine_moment_and_effort(profile_report: ProfileReport) -> None:
    assert basis_parts(profile_report) == (
        "measured 2026-03-14 14:02 on CPU (AMD EPYC 7B13), 2 threads",
        "8 steps",
    )
    on_gpu = replace(profile_report, device=Device("NVIDIA H200", "cuda"))
    assert basis_parts(on_gpu)[0] == "measured 2026-03-14 14:02 on NVIDIA H200"


def test_the_recording_has_its_cost_and_its_simulation_error(profile_report: ProfileReport) -> None:
    cost, error = recording_remarks(replace(profile_report, overhead=1.1, replay_error=0.004))
    assert "1.10x" in cost
    assert error.startswith("Simulation error 0.4 %")
    assert not recording_remarks(replace(profile_report, mode="predicted"))


def test_measured_range(profile_report: ProfileReport) -> None:
    curve = profile_report.curve
    assert measured_range(curve) == "measured at 8, 16, 32, 48; below 8 and above 48 it is extrapolated"
    assert measured_range(()) == ""
    only = tuple(replace(point, measured=point.batch_size == 32) for point in curve)
    assert measured_range(only) == "measured at 32 only: every other batch size is extrapolated"
