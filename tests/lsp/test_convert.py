from __future__ import annotations

import os

import pytest
from lsprotocol import types
from pygls.workspace import PositionCodec

from skyline.source.text import SourceSpan, SourceText, TextEdit
from skyline_lsp import convert

# A letter outside the basic plane (two UTF-16 units, four bytes) and one of two bytes before the number.
TEXT = SourceText.of("/x/train.py", 'a = 1\nnäme = "😋"; batch = 32  # end  \n')


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        (types.PositionEncodingKind.Utf32, 20),
        (types.PositionEncodingKind.Utf16, 21),
        (types.PositionEncodingKind.Utf8, 24),
    ],
)
def test_columns_count_the_units_that_were_agreed_on(
    encoding: types.PositionEncodingKind, expected: int
) -> None:
    column = TEXT.line(2).index("32")
    assert convert.to_position(PositionCodec(encoding), TEXT, 2, column) == types.Position(1, expected)


def test_a_column_past_the_end_is_the_end() -> None:
    assert convert.to_position(PositionCodec(), TEXT, 1, 99) == types.Position(0, 5)


def test_line_end_is_behind_the_last_visible_character() -> None:
    assert convert.line_end(PositionCodec(), TEXT, 2).character == len(TEXT.line(2).rstrip()) + 1


def test_line_range_leaves_indentation_out() -> None:
    text = SourceText.of("/x/a.py", "    loss.backward()  \n")
    assert convert.line_range(PositionCodec(), text, 1) == types.Range(
        types.Position(0, 4), types.Position(0, 19)
    )


def test_form_feeds_do_not_end_a_line() -> None:
    text = SourceText.of("/x/a.py", "a = 1\n\x0cb = 2\u2028\nc = 3\n")
    span = text.span(text.text.index("c"), text.text.index("c") + 1)
    assert convert.to_range(PositionCodec(), text, span).start == types.Position(2, 0)


def test_preview_counts_utf16_units() -> None:
    column = TEXT.line(2).index("32")
    edit = TextEdit(SourceSpan(TEXT.path, 2, column, 2, column + 2), "32", "64")
    (preview,) = convert.to_preview([edit], {TEXT.path: TEXT}, {TEXT.path: "file:///x/train.py"})
    assert (preview.startLine, preview.startColumn, preview.endColumn, preview.newText) == (1, 21, 23, "64")


def test_edits_of_one_file_go_out_together_with_its_version() -> None:
    first = TextEdit(SourceSpan(TEXT.path, 1, 4, 1, 5), "1", "2")
    column = TEXT.line(2).index("32")
    second = TextEdit(SourceSpan(TEXT.path, 2, column, 2, column + 2), "32", "64")
    document = types.OptionalVersionedTextDocumentIdentifier("file:///x/train.py", 7)
    edit = convert.to_workspace_edit(
        PositionCodec(), [first, second], {TEXT.path: TEXT}, {TEXT.path: document}
    )
    assert edit.document_changes is not None
    (change,) = edit.document_changes
    assert isinstance(change, types.TextDocumentEdit)
    assert change.text_document.version == 7
    assert [part.range.start.line for part in change.edits if isinstance(part, types.TextEdit)] == [0, 1]

    plain = convert.without_versions(edit)
    assert plain.document_changes is None
    assert plain.changes == {"file:///x/train.py": list(change.edits)}


@pytest.mark.parametrize("name", ["train.py", "mit leer zeichen.py", "näme#1 100%.py"])
def test_paths_survive_the_way_through_a_uri(tmp_path: os.PathLike[str], name: str) -> None:
    path = os.path.join(os.path.realpath(tmp_path), name)
    assert convert.path_of(convert.uri_of(path)) == path


def test_other_schemes_are_no_paths() -> None:
    assert convert.path_of("untitled:Untitled-1") is None
