from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from skyline.errors import RewriteRefused, UsageError
from skyline_tui.workspace_edit import write_workspace_edit


def replacing(path: Path, line: int, start: int, end: int, text: str) -> types.TextDocumentEdit:
    span = types.Range(types.Position(line, start), types.Position(line, end))
    document = types.OptionalVersionedTextDocumentIdentifier(uri=path.as_uri(), version=None)
    return types.TextDocumentEdit(document, [types.TextEdit(span, text)])


@pytest.mark.parametrize(
    ("before", "column", "after"),
    [
        (b"x = 1\r\nbatch_size = 32\r\n", 13, b"x = 1\r\nbatch_size = 64\r\n"),
        (b"\xef\xbb\xbfx = 1\nbatch_size = 32", 13, b"\xef\xbb\xbfx = 1\nbatch_size = 64"),
        (b"# -*- coding: latin-1 -*-\n'\xe9'; b = 32\n", 9, b"# -*- coding: latin-1 -*-\n'\xe9'; b = 64\n"),
        # The protocol counts the rocket as two.
        ("x = 1\n'🚀'; b = 32\n".encode(), 10, "x = 1\n'🚀'; b = 64\n".encode()),
        (b"x = 1\rbatch_size = 32\r", 13, b"x = 1\rbatch_size = 64\r"),
        (b"x = 1 \x0c\nbatch_size = 32\n", 13, b"x = 1 \x0c\nbatch_size = 64\n"),
    ],
)
def test_all_bytes_but_the_edited_ones_stay(tmp_path: Path, before: bytes, column: int, after: bytes) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(before)
    edit = types.WorkspaceEdit(document_changes=[replacing(path, 1, column, column + 2, "64")])
    assert [file.path for file in write_workspace_edit(edit)] == [path]
    assert path.read_bytes() == after


def test_a_notebook_is_edited_in_its_cell(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    cell = (
        '{"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "source": "x = 1\\nbatch_size = 32"}'
    )
    before = f'{{"cells": [{cell}], "metadata": {{}}, "nbformat": 4,\n  "nbformat_minor": 5}}'
    path.write_text(before)
    # Line 0 is the heading of the cell.
    (file,) = write_workspace_edit(types.WorkspaceEdit(document_changes=[replacing(path, 2, 13, 15, "64")]))
    assert file.place == "In [1]:2"
    assert path.read_text() == before.replace("32", "64")


def test_changes_by_uri_are_understood_too(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"b = 32\n")
    inner = replacing(path, 0, 4, 6, "64").edits[0]
    assert isinstance(inner, types.TextEdit)
    write_workspace_edit(types.WorkspaceEdit(changes={path.as_uri(): [inner]}))
    assert path.read_bytes() == b"b = 64\n"


def test_a_position_past_the_end_is_the_end(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"a\nb\n")
    span = types.Range(types.Position(0, 0), types.Position(99, 99))
    document = types.OptionalVersionedTextDocumentIdentifier(uri=path.as_uri(), version=None)
    write_workspace_edit(
        types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(document, [types.TextEdit(span, "c")])])
    )
    assert path.read_bytes() == b"c"


def test_where_one_file_cannot_be_edited_none_is(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"b = 32\n")
    gone = tmp_path / "gone.py"
    edit = types.WorkspaceEdit(
        document_changes=[replacing(path, 0, 4, 6, "64"), replacing(gone, 0, 0, 0, "x")]
    )
    with pytest.raises(UsageError, match="does not exist"):
        write_workspace_edit(edit)
    assert path.read_bytes() == b"b = 32\n"


def test_files_are_not_created_or_removed(tmp_path: Path) -> None:
    edit = types.WorkspaceEdit(document_changes=[types.DeleteFile(uri=(tmp_path / "train.py").as_uri())])
    with pytest.raises(RewriteRefused, match="delete"):
        write_workspace_edit(edit)
