"""The outcome of a budget check in each of its forms."""

from __future__ import annotations

from io import StringIO
from xml.etree import ElementTree

import pytest
from rich.console import Console

from skyline.interval import Interval
from skyline.report.check import CHECK_SCHEMA, CheckReport, LimitReport, junit, markdown
from skyline.report.pages.check import check_page
from skyline.report.terminal import print_document


@pytest.fixture
def report() -> CheckReport:
    limits = (
        LimitReport("slower", 0.05, Interval(0.1, 0.08, 0.12), "over"),
        LimitReport("iteration_ms", 120.0, Interval(118.0, 112.0, 124.0), "inconclusive"),
        LimitReport("peak_mb", 4000.0, Interval.exact(1500.0), "within"),
    )
    null = Interval(1.0, 0.99, 1.01)
    return CheckReport(
        CHECK_SCHEMA, "train.py", "origin/main (abc1234)", "over", limits, Interval(1.1, 1.08, 1.12), null, 30, 5,
        0.021, "CPU", ("A note.",),
    )  # fmt: skip


def test_a_pull_request_gets_a_table(report: CheckReport) -> None:
    text = markdown(report)
    assert text.startswith("### Skyline: Over budget: slower than the base.\n")
    assert "| slower than the base | +5.0% | +10.0% (+8.0% to +12.0%) | ❌ over |" in text
    assert "against origin/main (abc1234), alternately: 30 rounds in 5 starts" in text
    assert "Starts differ by 2.1% (standard deviation)." in text
    assert text.endswith("- A note.\n")


def test_too_few_starts_give_a_value_without_a_range() -> None:
    def words(*ends: float) -> str:
        return LimitReport("slower", 0.05, Interval(*ends), "inconclusive").measured_words

    assert words(0.1, -1.0, float("inf")) == "+10.0% (too few starts for a range)"
    assert words(0.0, 0.0, float("inf")) == "not measured"


def test_a_ci_server_gets_a_test_for_each_limit(report: CheckReport) -> None:
    suite = ElementTree.fromstring(junit(report))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    slower, iteration, peak = suite
    assert slower.find("failure") is not None
    assert iteration.find("skipped") is not None
    assert peak.find("failure") is None


def test_a_terminal_gets_the_verdict_first(report: CheckReport) -> None:
    out = StringIO()
    print_document(check_page(report), Console(file=out, width=100, highlight=False))
    lines = [line.strip() for line in out.getvalue().splitlines() if line.strip()]
    assert lines[0] == "Over budget: slower than the base."
    assert any(line.startswith("peak memory") and line.endswith("within") for line in lines)
