"""The findings of the profile on a page of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from skyline.findings.base import Evidence
from skyline.report.schema import FindingReport, ProfileReport
from skyline_tui.views.findings import FindingsView
from skyline_tui.widgets.source import Source
from skyline_tui.widgets.whatifs import WhatIfs

if TYPE_CHECKING:
    from conftest import OpenedApp


def with_findings(profile: ProfileReport) -> ProfileReport:
    slow = FindingReport(
        "SKY101", "12% of the iteration is data loading", profile.script, 6, 21.9, "num_workers",
        (Evidence("4 ms of an iteration", profile.script, 8), Evidence("no workers")),
    )  # fmt: skip
    full = FindingReport("SKY401", "the peak is [b]full[/b]", profile.script, 8, 0.0, None)
    return replace(profile, findings=(slow, full))


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_each_with_its_evidence_and_cure(
    opened_app: Callable[..., OpenedApp], size: tuple[int, int]
) -> None:
    made = opened_app(alter=with_findings)
    async with made.app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.press("i")
        await pilot.pause()
        assert made.app.query_one(FindingsView).display
        words = " ".join(made.text.split())
        for expected in ("SKY101", "21.9 ms per iteration", "train.py:8: 4 ms of an iteration", "num_workers",
                         "docs/findings/SKY101.md"):  # fmt: skip
            assert expected in words
        await pilot.press("down")
        await pilot.pause()
        assert "the peak is [b]full[/b]" in " ".join(made.text.split())
        await pilot.press("escape")
        assert not made.app.query_one(FindingsView).display


async def test_space_asks_what_the_cure_would_bring(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app(alter=with_findings, live=False)
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("i", "space")
        await pilot.pause()
        assert made.app.query_one(WhatIfs).checked == ("num_workers=2",)
        assert made.session.questions[-1].whatifs == ("num_workers=2",)


async def test_enter_opens_the_line(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app(alter=with_findings)
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("7", "enter")
        await pilot.pause()
        assert made.app.query_one("#line-source", Source).place == (str(made.session.script), 6)
        assert made.app.query_one("#line-source", Source).has_focus


async def test_a_profile_without_problems(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app()
    async with made.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("i")
        await pilot.pause()
        assert "No rule found a problem" in made.text
