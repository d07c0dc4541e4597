"""A few made-up scripts under every rewrite, and that the checks find what they look for."""

from __future__ import annotations

import pytest

from skyline.source.text import SourceText


def test_no_rewrite_corrupts_a_script() -> None:
    from rewrite_variants import tried

    outcomes = tried(0, 5)
    assert outcomes.corrupted == []
    assert outcomes.variants == 5
    assert {name for name, counts in outcomes.by_rewrite.items() if counts["rewritten"]} >= {
        "amp",
        "batch_size",
    }


BEFORE = "import torch\nfor x in y:\n    a = f(x)  # why\n    b = 1\nc = 2\n"


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (BEFORE.replace("    b = 1", "b = 1"), "another block"),
        (BEFORE.replace("# why", "# wny"), "do not give the text"),
        (BEFORE.replace("c = 2\n", "c = 2\r\n"), "do not give the text"),
    ],
)
def test_what_was_not_to_change_is_noticed(after: str, said: str) -> None:
    from rewrite_checks import Corrupted, check

    source = SourceText.of("train.py", BEFORE)
    edits = ()
    if "block" in said:
        edits = (source.edit(source.span(source.offset(4, 0), source.offset(4, 4)), ""),)
    with pytest.raises(Corrupted, match=said):
        check(source, SourceText.of("train.py", after), edits)


@pytest.mark.parametrize(
    ("line", "column", "end", "text", "said"),
    [
        (3, 4, 4, "if x:\n        ", ""),
        (3, 9, 9, "_", "tokens"),
        (5, 0, 0, "    ", "another block"),
        (1, 12, 12, "\r\nimport os", "line ends by"),
    ],
)
def test_what_an_edit_does_to_the_rest_is_noticed(
    line: int, column: int, end: int, text: str, said: str
) -> None:
    from rewrite_checks import Corrupted, check, undone

    source = SourceText.of("train.py", BEFORE)
    edit = source.edit(source.span(source.offset(line, column), source.offset(line, end)), text)
    after = source.apply((edit,))
    assert undone(source, after, (edit,))
    if not said:
        check(source, after, (edit,))
        return
    with pytest.raises(Corrupted, match=said):
        check(source, after, (edit,))
