from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from skyline.analysis.line_parts import LinePart
from skyline.errors import UsageError
from skyline.report.html import render as render_html
from skyline.report.pages.lines import find_line, line_page
from skyline.report.schema import ProfileReport
from skyline.report.terminal import print_document


@pytest.fixture
def report(profile_report: ProfileReport) -> ProfileReport:
    part = LinePart("Nano.blocks.0.attention", "torch.nn.functional.softmax", 3.25, 1.0)
    dear, *others = profile_report.lines
    dear = replace(dear, flops=2_500_000_000, peak_bytes=100_000_000, frequency=0.5, parts=(part,))
    return replace(profile_report, lines=(dear, *others))


def text_of(report: ProfileReport, place: str, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    print_document(line_page(report, find_line(report, place), None), console)
    return console.file.getvalue()


def test_a_line_is_told_in_full(report: ProfileReport) -> None:
    text = text_of(report, "nano/model.py:88")
    for words in (
        "att = q @ k.transpose(-2, -1) * self.scale",
        "forward   14.2 ms",
        "backward  26.8 ms",
        "41.0 ms, 22 %",
        "2.5 billion floating-point operations",
        "holds 100 MB when memory is at its peak",
        "50 % of the recorded iterations",
        "torch.nn.functional.softmax",
    ):
        assert words in text


@pytest.mark.parametrize("width", [40, 80, 100])
def test_no_row_is_wider_than_the_page(report: ProfileReport, width: int) -> None:
    assert all(len(row) <= max(width, 40) for row in text_of(report, "model.py:88", width).splitlines())


def test_a_bare_number_is_a_line_of_the_script(report: ProfileReport) -> None:
    assert find_line(report, "49").source.strip() == "optimizer.step()"


@pytest.mark.parametrize("place", ["999", "model.py:1", "model.py", "nowhere.py:88"])
def test_a_line_without_cost_is_said(report: ProfileReport, place: str) -> None:
    with pytest.raises(UsageError):
        find_line(report, place)


def test_the_page_unfolds_what_a_line_calls(report: ProfileReport) -> None:
    page = render_html(report, None)
    assert "Nano.blocks.0.attention · torch.nn.functional.softmax" in page
