from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.interval import Interval
from skyline.report.diff import diff
from skyline.report.schema import ProfileReport


def test_a_profile_against_itself_is_within_noise(profile_report: ProfileReport) -> None:
    found = diff(profile_report, profile_report)
    assert found.verdict == "within noise"
    assert found.change == 0
    assert all(line.change_ms == 0 for line in found.lines)
    assert found.notes == ()


def test_faster_beyond_the_noise(profile_report: ProfileReport, faster_report: ProfileReport) -> None:
    found = diff(profile_report, faster_report)
    assert found.verdict == "faster"
    assert found.change == pytest.approx(170.0 / 182.4 - 1)
    assert found.peak_change_bytes == pytest.approx(-0.1e9)
    assert diff(faster_report, profile_report).verdict == "slower"


def test_a_wide_spread_hides_the_same_change(
    profile_report: ProfileReport, faster_report: ProfileReport
) -> None:
    unsure = replace(faster_report, throughput=Interval(188.0, 160.0, 216.0))
    assert diff(profile_report, unsure).verdict == "within noise"


def test_moved_lines_are_the_same_lines(profile_report: ProfileReport, faster_report: ProfileReport) -> None:
    by_source = {line.source.strip(): line for line in diff(profile_report, faster_report).lines}
    step = by_source["optimizer.step()"]
    assert (step.line_before, step.line_after) == (49, 51)
    assert step.change_ms == pytest.approx(-6.0)
    gone = by_source["running += loss.item()"]
    assert (gone.line_after, gone.after_ms) == (0, 0.0)


def test_an_edited_line_is_matched_by_its_place(profile_report: ProfileReport) -> None:
    first, *others = profile_report.lines
    edited = replace(first, source="        att = F.scaled_dot_product_attention(q, k, v)", self_ms=20.0)
    found = diff(profile_report, replace(profile_report, lines=(edited, *others))).lines[0]
    assert (found.line_before, found.line_after, found.after_ms) == (88, 88, 20.0)


def test_equal_lines_in_one_function_are_told_apart_by_order(profile_report: ProfileReport) -> None:
    first = profile_report.lines[0]
    twins = (replace(first, line=10, self_ms=1.0), replace(first, line=20, self_ms=2.0))
    moved = (replace(first, line=12, self_ms=1.5), replace(first, line=22, self_ms=2.0))
    before, after = (replace(profile_report, lines=lines) for lines in (twins, moved))
    pairs = {(line.line_before, line.line_after): line.change_ms for line in diff(before, after).lines}
    assert pairs == {(10, 12): 0.5, (20, 22): 0.0}


def test_a_larger_batch_is_compared_by_the_sample(profile_report: ProfileReport) -> None:
    time = Interval(340.0, 338.0, 342.0)
    batch = replace(profile_report.batch_size, value=64)
    larger = replace(profile_report, iteration_ms=time, throughput=time.inverse(64_000), batch_size=batch)
    found = diff(profile_report, larger)
    assert found.verdict == "faster"
    assert found.change_ms > 0
    assert found.notes == ("the batch sizes differ: 32 and 64",)


def test_other_circumstances_are_named(profile_report: ProfileReport) -> None:
    other = replace(profile_report, script="/home/ada/other.py", intraop_threads=8, arguments=())
    assert len(diff(profile_report, other).notes) == 3


def test_a_copy_of_the_project_elsewhere_is_compared_line_by_line(profile_report: ProfileReport) -> None:
    def moved(path: str) -> str:
        return path.replace("/home/ada/nano/", "/tmp/copy/")

    lines = tuple(replace(line, file=moved(line.file)) for line in profile_report.lines)
    copy = replace(profile_report, script=moved(profile_report.script), lines=lines)
    found = diff(profile_report, copy)
    assert all(line.line_before and line.line_after for line in found.lines)
    assert any("two scripts" in note for note in found.notes)
