from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyline.source.text import SourceText
from skyline_lsp.applied import Applied, AppliedStack, holds


def applied(before: str, after: str) -> Applied:
    return Applied(
        "batch size 64", {"a.py": SourceText.of("a.py", before)}, {"a.py": SourceText.of("a.py", after)}
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 32\n", "x = 64\n"),
        ("a\r\nb\r\n", "a\r\nnew\r\nb\r\n"),
        ("a\r\n\r\nb", "a\nb"),
        ("x = 32", "import os\nx = 32"),
        ("", "x"),
        ("😋 = 1 # ä\n", "😋 = 2 # ä\n"),
    ],
)
def test_the_inverse_brings_the_old_text_back(before: str, after: str) -> None:
    change = applied(before, after)
    assert change.after["a.py"].apply(change.inverse()).text == before


@given(st.text("ab\r\n", max_size=12), st.text("ab\r\n", max_size=12))
def test_the_inverse_of_any_change(before: str, after: str) -> None:
    change = applied(before, after)
    assert change.after["a.py"].apply(change.inverse()).text == before


def test_the_inverse_touches_no_more_than_what_changed() -> None:
    (edit,) = applied("x = 32\ny = 1\n", "x = 64\ny = 1\n").inverse()
    assert (edit.old_text, edit.new_text, edit.span.line, edit.span.column) == ("64", "32", 1, 4)


def test_the_latest_comes_first() -> None:
    stack = AppliedStack()
    assert stack.top("a.py") is None
    first, second = applied("1", "2"), applied("2", "3")
    stack.push("a.py", first)
    stack.push("a.py", second)
    assert stack.top("a.py") is second
    stack.pop("a.py")
    assert stack.top("a.py") is first
    assert stack.top("b.py") is None


def test_holds_asks_for_the_exact_text() -> None:
    after = applied("1", "2").after
    assert holds(after, lambda path: SourceText.of(path, "2"))
    assert not holds(after, lambda path: SourceText.of(path, "2\n"))
    assert not holds(after, lambda path: None)
