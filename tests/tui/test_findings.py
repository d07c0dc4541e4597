"""The findings of the profile on a page of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from skyline.findings.base import Evidence
from skyline.report.schema import FindingReport, ProfileReport
from skyline_tui.screens.findings import Findings

if TYPE_CHECKING:
    from conftest import Desk


def with_findings(profile: ProfileReport) -> ProfileReport:
    slow = FindingReport(
        "SKY101", "12% of the iteration is data loading", profile.script, 6, 21.9, "num_workers",
        (Evidence("4 ms of an iteration", profile.script, 8), Evidence("no workers")),
    )  # fmt: skip
    full = FindingReport("SKY401", "the peak is [b]full[/b]", profile.script, 8, 0.0, None)
    return replace(profile, findings=(slow, full))


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_each_with_its_evidence_and_cure(desk: Callable[..., Desk], size: tuple[int, int]) -> None:
    made = desk(alter=with_findings)
    async with made.app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.press("i")
        await pilot.pause()
        assert isinstance(made.app.screen, Findings)
        words = " ".join(made.text.split())
        for expected in ("SKY101", "21.9 ms per iteration", "train.py:8: 4 ms of an iteration", "→ num_workers",
                         "the peak is [b]full[/b]"):  # fmt: skip
            assert expected in words
        await pilot.press("escape")
        assert not isinstance(made.app.screen, Findings)


async def test_a_profile_without_problems(desk: Callable[..., Desk]) -> None:
    made = desk()
    async with made.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("i")
        await pilot.pause()
        assert "No rule found a problem" in made.text
