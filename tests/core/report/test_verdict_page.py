"""The verdict on a page: its sentences, its place, and the command that makes the change."""

from __future__ import annotations

from pathlib import Path

from skyline.report.pages.verdict import verdict_blocks
from skyline.report.schema import VerdictReport

BOUND = "The optimizer's update takes 60 % of the step."


def texts(verdict: VerdictReport | None) -> list[str]:
    return [block.text for block in verdict_blocks(verdict, "train.py", Path("/project"))]


def test_a_change_that_can_be_written_has_its_command() -> None:
    found = VerdictReport(BOUND, "Fused: 1.3x.", "fused_optimizer", True, "/project/train.py", 12)
    assert texts(found) == [
        "The optimizer's update takes 60 % of the step (train.py:12).",
        "Fused: 1.3x.",
        "make it: skyline apply train.py fused_optimizer",
    ]


def test_without_a_change_there_is_no_command_and_a_caution_stands_last() -> None:
    found = VerdictReport(BOUND, "No change helps.", caution="The machine was busy.")
    assert texts(found) == [BOUND, "No change helps.", "The machine was busy."]


def test_a_change_that_cannot_be_written_has_the_reason() -> None:
    found = VerdictReport(BOUND, "Mixed precision: 2x.", "amp", obstacle="autocast is chosen elsewhere")
    assert texts(found)[-1] == "by hand: autocast is chosen elsewhere"


def test_without_answers_there_is_none() -> None:
    assert texts(None) == []
