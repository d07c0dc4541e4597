"""Texts go back to the bytes they came from, and positions to where they came from."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyline.errors import RewriteRefused, UsageError
from skyline.source.text import SourceSpan, SourceText, TextEdit, parse, span_of

# Characters that split lines elsewhere (form feed, vertical tab, file separator, NEL, U+2028) must not do so here.
CHARACTERS = st.text(st.sampled_from("ab =#\t\f\v\x1c\x85\u2028\r\n\rä€\U0001f600é1"), max_size=60)


@given(CHARACTERS, st.booleans())
def test_bytes_come_back(text: str, mark: bool) -> None:
    data = (b"\xef\xbb\xbf" if mark else b"") + text.encode("utf-8")
    source = SourceText.decode("x.py", data)
    assert source.encode() == data
    assert source.byte_order_mark is mark
    assert source.apply(()).encode() == data


@given(CHARACTERS)
def test_lines_are_those_of_the_parser(text: str) -> None:
    source = SourceText.of("x.py", text)
    universal = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert [source.line(number) for number in range(1, source.line_count + 1)] == universal


@given(CHARACTERS)
def test_positions_come_back(text: str) -> None:
    source = SourceText.of("x.py", text)
    for number in range(1, source.line_count + 1):
        line = source.line(number)
        for column in range(len(line) + 1):
            assert source.position(source.offset(number, column)) == (number, column)
            assert source.column_from_utf8(number, len(line[:column].encode())) == column
            assert source.column_from_utf16(number, len(line[:column].encode("utf-16-le")) // 2) == column


@given(CHARACTERS, st.data())
def test_an_edit_and_its_inverse_leave_nothing_behind(text: str, data: st.DataObject) -> None:
    source = SourceText.of("x.py", text)
    number = data.draw(st.integers(1, source.line_count))
    start = data.draw(st.integers(0, len(source.line(number))))
    end = data.draw(st.integers(start, len(source.line(number))))
    edit = source.edit(SourceSpan("x.py", number, start, number, end), "new")
    changed = source.apply((edit,))
    assert changed.text == text[: source.offset(number, start)] + "new" + text[source.offset(number, end) :]
    back = TextEdit(SourceSpan("x.py", number, start, number, start + 3), "new", edit.old_text)
    assert changed.apply((back,)).text == text


def test_the_mark_of_an_editors_text_is_no_character_of_it() -> None:
    source = SourceText.of("x.py", "\ufeffx = 1\n")
    assert source.text == "x = 1\n"
    assert source.encode() == b"\xef\xbb\xbfx = 1\n"


def test_an_editors_text_is_encoded_by_its_cookie() -> None:
    source = SourceText.of("x.py", "# -*- coding: latin-1 -*-\nx = 'é'\n")
    assert source.encode().endswith(b"x = '\xe9'\n")


def test_a_cookie_is_found_where_lines_end_in_carriage_returns() -> None:
    data = b"# coding: latin-1\rx = '\xe9'\r"
    assert SourceText.decode("x.py", data).encode() == data
    assert SourceText.decode("x.py", data).line(2) == "x = 'é'"


def test_columns_of_the_parser_are_bytes() -> None:
    source = SourceText.of("x.py", "s = 'é€😀'; x = 64\n")
    node = parse(source).body[1]
    assert isinstance(node, ast.Assign)
    assert source.at(span_of(source, node.value)) == "64"


def test_missing_file_and_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        SourceText.read(tmp_path / "none.py")
    with pytest.raises(UsageError, match=r"directory|cannot be read"):
        SourceText.read(tmp_path)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"x = '\xff'\n", "not"),
        (b"# coding: nonsense\n", "unknown encoding"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "not Python source"),
        (b"# coding: iso-2022-jp\nx = '\x1b(B'\n", "unchanged"),
    ],
)
def test_bytes_that_are_no_text_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        SourceText.decode("x.py", data)


def test_syntax_errors_have_a_place() -> None:
    with pytest.raises(UsageError) as caught:
        parse(SourceText.of("x.py", "x = 1\nfor\n"))
    assert (caught.value.file, caught.value.line) == ("x.py", 2)
    with pytest.raises(UsageError):
        parse(SourceText.of("x.py", "x = '\0'\n"))


def test_stale_and_overlapping_edits_are_refused() -> None:
    source = SourceText.of("x.py", "x = 64\n")
    span = SourceSpan("x.py", 1, 4, 1, 6)
    with pytest.raises(RewriteRefused, match="changed"):
        source.apply((TextEdit(span, "32", "1"),))
    with pytest.raises(RewriteRefused, match="changed"):
        source.apply((TextEdit(SourceSpan("y.py", 1, 4, 1, 6), "64", "1"),))
    with pytest.raises(RewriteRefused, match="changed"):
        source.apply((TextEdit(SourceSpan("x.py", 9, 4, 9, 6), "64", "1"),))
    with pytest.raises(RewriteRefused, match="same text"):
        source.apply((TextEdit(span, "64", "1"), TextEdit(SourceSpan("x.py", 1, 5, 1, 6), "4", "1")))


def test_insertions_at_one_place_keep_their_order() -> None:
    source = SourceText.of("x.py", "f(a)\n")
    place = SourceSpan("x.py", 1, 3, 1, 3)
    assert source.apply((TextEdit(place, "", ", b"), TextEdit(place, "", ", c"))).text == "f(a, b, c)\n"


def test_writing_in_an_encoding_without_the_character_is_refused(tmp_path: Path) -> None:
    source = SourceText.of(str(tmp_path / "x.py"), "# coding: latin-1\nx = '€'\n")
    with pytest.raises(UsageError, match="iso-8859-1"):
        source.write_bytes()
    assert not (tmp_path / "x.py").exists()
