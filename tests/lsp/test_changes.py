"""The lines where a change of the code is offered."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from skyline.analysis.analyse import analyse
from skyline.findings.base import Finding
from skyline.report.build import whatif_report
from skyline.source.text import SourceSpan, TextEdit
from skyline.trace.store import load
from skyline_lsp.changes import _touched, changes
from skyline_lsp.features.code_action import FIX_ALL, QUICK_FIX, REFACTORING, _named, _wanted


def edit(line: int, column: int, end_line: int, end_column: int, old: str, new: str) -> TextEdit:
    return TextEdit(SourceSpan("train.py", line, column, end_line, end_column), old, new)


@pytest.mark.parametrize(
    ("edits", "lines"),
    [
        ([edit(7, 20, 7, 22, "32", "64")], {7}),
        ([edit(7, 0, 9, 3, "…", "…")], {7, 8, 9}),
        ([edit(7, 0, 9, 0, "two lines\n", "")], {7, 8}),
        # A line put behind another one is offered at both.
        ([edit(8, 0, 8, 0, "", "model.compile()\n")], {7, 8}),
        ([edit(1, 0, 1, 0, "", "torch.set_num_threads(2)\n")], {1}),
        # The import that a change needs is not where it happens, unless there is nothing else.
        ([edit(2, 0, 2, 0, "", "import torch\n"), edit(9, 4, 9, 4, "", "with x:")], {9}),
        ([edit(2, 0, 2, 0, "", "from torch import nn\n")], {1, 2}),
    ],
)
def test_a_change_is_offered_where_it_happens(edits: list[TextEdit], lines: set[int]) -> None:
    assert set(_touched(tuple(edits))) == {("train.py", line) for line in lines}


@pytest.mark.parametrize(
    ("only", "fix", "refactoring"),
    [
        (None, True, True),
        ([types.CodeActionKind.QuickFix], True, False),
        ([types.CodeActionKind.Refactor], False, True),
        (["refactor.rewrite"], False, True),
        ([types.CodeActionKind.RefactorExtract], False, False),
        (["refactor.rewrite.inner", "quickfix"], True, False),
    ],
)
def test_only_the_kinds_asked_for(only: list[object] | None, fix: bool, refactoring: bool) -> None:
    assert (_wanted(QUICK_FIX, only), _wanted(REFACTORING, only)) == (fix, refactoring)


@pytest.mark.parametrize(
    ("only", "named"),
    [
        (None, False),
        ([types.CodeActionKind.Source], False),
        ([types.CodeActionKind.SourceFixAll], False),
        (["source.fixAll.other"], False),
        (["source.fixAll.skyline.more"], False),
        (["source.fixAll.skyline"], True),
        ([types.CodeActionKind.SourceFixAll, "source.fixAll.skyline"], True),
    ],
)
def test_all_changes_at_once_are_made_only_by_name(only: list[object] | None, named: bool) -> None:
    assert _named(FIX_ALL, only) is named


def test_the_cure_of_a_finding_keeps_its_value() -> None:
    profile = load(Path(__file__).parents[1] / "data" / "linear.profile.json.gz")
    analysis = analyse(profile)
    answers = whatif_report(analysis)
    default = next(one.value for one in answers.estimates if one.name == "batch_size")
    finding = Finding("SKY304", "a larger batch", profile.script, 5, 1.0, "batch_size=32")
    assert default != "32"
    found = changes(analysis, answers, (finding, finding))
    assert [one.estimate.value for one in found if one.estimate.name == "batch_size"] == [default, "32"]
    again = Finding("SKY304", "a larger batch", profile.script, 5, 1.0, f"batch_size={default}")
    assert changes(analysis, answers, (again,)) == changes(analysis, answers)
