"""Makes the server's edits in the files on disk. All other bytes stay as they are."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from lsprotocol import types
from pygls.uris import to_fs_path

from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.source.cells import cell_line, is_notebook
from skyline.source.text import SourceSpan, SourceText, TextEdit
from skyline.whole_file import all_or_none


@dataclass(frozen=True, slots=True)
class RewrittenFile:
    """A file that was rewritten. ``lines`` are its new lines, counted from 1; ``diff`` is the change.

    ``place`` names the first of the lines: ``train.py:12``, or ``In [3]:2`` in a notebook; empty if there is none.
    """

    path: Path
    lines: tuple[int, ...]
    place: str
    diff: str


def write_workspace_edit(edit: types.WorkspaceEdit) -> tuple[RewrittenFile, ...]:
    """Make the edit on disk. Returns the changed files.

    All files are read and edited in memory before the first is written. A refusal, or a file that cannot be written,
    leaves all of them unchanged. Raises RewriteRefused or UsageError with the reason.
    """
    edited = [_edited(uri, edits) for uri, edits in _by_file(edit)]
    all_or_none((after.write_bytes, before.write_bytes) for before, after in edited)
    return tuple(_written(before, after) for before, after in edited)


def _written(before: SourceText, after: SourceText) -> RewrittenFile:
    old, new = before.text.splitlines(), after.text.splitlines()
    changed: list[int] = []
    for what, _, _, begin, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what != "equal":
            # For deleted lines, count the line that took their place.
            changed += range(begin + 1, max(end, begin + 1) + 1)
    name = Path(after.path).name
    cell = cell_line(after.text, changed[0]) if changed and is_notebook(after.path) else None
    place = str(cell or f"{name}:{changed[0]}") if changed else ""
    diff = "\n".join(difflib.unified_diff(old, new, name, name, lineterm=""))
    return RewrittenFile(Path(after.path), tuple(changed), place, diff)


def _by_file(edit: types.WorkspaceEdit) -> Iterator[tuple[str, list[types.TextEdit]]]:
    for change in edit.document_changes or ():
        if not isinstance(change, types.TextDocumentEdit):
            raise RewriteRefused(f"An edit that would {change.kind} a file is not supported here")
        plain = [item for item in change.edits if isinstance(item, (types.TextEdit, types.AnnotatedTextEdit))]
        if len(plain) != len(change.edits):
            raise RewriteRefused("An edit with placeholders to fill in is not supported here")
        yield change.text_document.uri, [types.TextEdit(item.range, item.new_text) for item in plain]
    if not edit.document_changes:
        yield from ((uri, list(edits)) for uri, edits in (edit.changes or {}).items())


def _edited(uri: str, edits: list[types.TextEdit]) -> tuple[SourceText, SourceText]:
    path = to_fs_path(uri)
    if not path:
        raise RewriteRefused(f"{uri} is not a file on this machine")
    source = SourceText.read(path)
    return source, source.apply(_text_edit(source, item) for item in edits)


def _text_edit(source: SourceText, edit: types.TextEdit) -> TextEdit:
    span = SourceSpan(source.path, *_place(source, edit.range.start), *_place(source, edit.range.end))
    return source.edit(span, edit.new_text)


def _place(source: SourceText, position: types.Position) -> tuple[int, int]:
    """Line counted from 1 and column in characters. A position past the end is the end, as the protocol requires."""
    if position.line >= source.line_count:
        return source.line_count, len(source.line(source.line_count))
    line = position.line + 1
    return line, source.column_from_utf16(line, position.character)
