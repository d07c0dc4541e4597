from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types
from pygls.workspace import PositionCodec

from skyline_lsp.text_changes import changed

TEXTS = st.text(alphabet="ab\n\r\f\u2028é😋", max_size=20)


def partial(
    start: tuple[int, int], end: tuple[int, int], text: str
) -> types.TextDocumentContentChangePartial:
    place = types.Range(types.Position(*start), types.Position(*end))
    return types.TextDocumentContentChangePartial(range=place, text=text)


@pytest.mark.parametrize(
    ("encoding", "column"),
    [
        (types.PositionEncodingKind.Utf8, 5),
        (types.PositionEncodingKind.Utf16, 3),
        (types.PositionEncodingKind.Utf32, 2),
    ],
)
def test_columns_are_in_the_units_agreed_on(encoding: types.PositionEncodingKind, column: int) -> None:
    after = changed("a😋b\n", [partial((0, column), (0, column), "X")], PositionCodec(encoding))
    assert after == "a😋Xb\n"


def test_lines_end_where_the_protocol_ends_them() -> None:
    text = "one\f\r\ntwo\u2028\rthree\nfour"
    codec = PositionCodec()
    assert changed(text, [partial((1, 0), (1, 0), "X")], codec) == "one\f\r\nXtwo\u2028\rthree\nfour"
    assert changed(text, [partial((2, 0), (2, 0), "X")], codec) == "one\f\r\ntwo\u2028\rXthree\nfour"
    assert changed(text, [partial((0, 99), (1, 0), "")], codec) == "one\ftwo\u2028\rthree\nfour"
    assert changed(text, [partial((99, 0), (3, 99), "X")], codec) == text + "X"


def test_changes_are_made_one_after_the_other_and_a_whole_text_replaces_all() -> None:
    whole = types.TextDocumentContentChangeWholeDocument("new\n")
    assert (
        changed("old", [whole, partial((0, 0), (0, 3), "x"), partial((0, 1), (0, 0), "y")], PositionCodec())
        == "y\n"
    )


@given(TEXTS, st.integers(0, 30), st.integers(0, 30), TEXTS)
def test_a_range_between_any_two_characters(text: str, first: int, last: int, new: str) -> None:
    codec = PositionCodec()
    ends = sorted(min(at, len(text)) for at in (first, last))

    def place(at: int) -> tuple[int, int]:
        lines = text[:at].replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return len(lines) - 1, codec.client_num_units(lines[-1])

    if any(text[at - 1 : at + 1] == "\r\n" for at in ends):
        return
    after = changed(text, [partial(place(ends[0]), place(ends[1]), new)], codec)
    assert after == text[: ends[0]] + new + text[ends[1] :]
