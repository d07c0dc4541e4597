"""Prevented and allowed side effects, in every report."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.json import encode
from rich.console import Console

from skyline.report import html
from skyline.report.pages.profile import allowed, prevented, profile_page
from skyline.report.schema import ProfileReport
from skyline.report.terminal import print_document
from skyline.trace.facts import Protection, SideEffect
from skyline.trace.record import CodeLine


def with_effects(report: ProfileReport) -> ProfileReport:
    folder = Path(report.script).parent
    return replace(
        report,
        side_effects=(
            SideEffect(
                "file", f"{folder}/out/<last>.pt", "redirected", 12, CodeLine(report.script, 7, "main")
            ),
            SideEffect("removal", f"{folder}/out", "held back"),
            SideEffect("tracker", "W&B", "held back"),
            SideEffect("network", "example.org", "allowed"),
        ),
    )


def printed(report: ProfileReport) -> str:
    stream = io.StringIO()
    print_document(profile_page(report, None), Console(file=stream, width=100))
    return stream.getvalue()


def test_the_text_says_it_in_two_lines(profile_report: ProfileReport) -> None:
    out = printed(with_effects(profile_report))
    assert "prevented: 1 file, 1 removal; W&B off" in out
    assert "allowed: host example.org" in out


def test_the_text_says_nothing_where_there_is_nothing(profile_report: ProfileReport) -> None:
    assert "prevented" not in printed(profile_report)


def test_the_page_lists_each_with_its_place(profile_report: ProfileReport) -> None:
    page = html.render(with_effects(profile_report))
    assert "Actions of the script other than training" in page
    assert "out/&lt;last&gt;.pt" in page
    assert "train.py:7" in page
    assert "Side effects" not in html.render(profile_report)


def test_json_holds_them_whole(profile_report: ProfileReport) -> None:
    report = with_effects(profile_report)
    [first, *_] = json.loads(encode(report))["side_effects"]
    assert first["line"]["line"] == 7
    assert (first["kind"], first["outcome"], first["count"]) == ("file", "redirected", 12)


def test_refused_writes_and_hosts_are_counted() -> None:
    effects = (
        SideEffect("file", "/a", "refused"),
        SideEffect("file", "/b", "redirected"),
        SideEffect("network", "data.org", "refused", 3),
        SideEffect("network", "example.org", "allowed"),
    )
    assert prevented(effects) == "1 file; 1 file refused; host data.org refused"
    assert allowed(effects) == "host example.org"


@pytest.mark.parametrize(
    ("protection", "words"),
    [
        (Protection("kernel"), "kernel and interception; network: open"),
        (Protection("kernel", "a gap"), "kernel and interception (a gap); network: open"),
        (Protection("kernel", network="loopback"), "kernel and interception; network: this machine only"),
        (Protection("interception only", "too old"), "interception only (too old): native code"),
        (Protection("off", "allowed"), "off (allowed)"),
    ],
)
def test_every_report_says_what_kept_the_files(
    profile_report: ProfileReport, protection: Protection, words: str
) -> None:
    report = replace(with_effects(profile_report), protection=protection)
    assert f"protection: {words}" in " ".join(printed(report).split())
    assert f"protection: {words}" in html.render(report)
    assert json.loads(encode(report))["protection"] == {
        "state": protection.state,
        "reason": protection.reason,
        "network": protection.network,
    }
