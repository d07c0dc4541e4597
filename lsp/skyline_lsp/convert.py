"""Converts between Skyline's positions and those of LSP. No other module handles LSP positions.

Skyline counts lines from 1 and columns in characters. The protocol counts lines from 0 and columns in the code
units that client and server agreed on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from lsprotocol import types
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import PositionCodec

from skyline.report.protocol import PreviewEdit
from skyline.source.text import SourceSpan, SourceText, TextEdit

NO_NOTEBOOKS = "This editor does not send the cells of its notebooks to Skyline"
NOTEBOOK_HINT = (
    "In a terminal: skyline profile NOTEBOOK. In Jupyter: %load_ext skyline, then %%skyline in a cell."
)


def is_notebook(uri: str) -> bool:
    """True if a document is a notebook or a cell of one."""
    return uri.startswith("vscode-notebook-cell:") or uri.partition("#")[0].endswith(".ipynb")


_UTF16 = PositionCodec(types.PositionEncodingKind.Utf16)


def path_of(uri: str) -> str | None:
    """The path of a URI with links resolved, as in profiles. None if it is not a local file."""
    try:
        path = to_fs_path(uri)
        return os.path.realpath(path) if path and os.path.isabs(path) else None
    except (AttributeError, OSError, ValueError):
        # Not a URI, or one with characters that a path cannot contain.
        return None


def uri_of(path: str) -> str:
    """The URI of a file."""
    return from_fs_path(path) or ""


def line_number(position: types.Position) -> int:
    """The line of a position, counted from 1."""
    return position.line + 1


def to_position(codec: PositionCodec, text: SourceText, line: int, column: int) -> types.Position:
    """A Skyline position in the client's units. A column beyond the end of the line becomes the end of the line."""
    return types.Position(line - 1, codec.client_num_units(text.line(line)[:column]))


def to_range(codec: PositionCodec, text: SourceText, span: SourceSpan) -> types.Range:
    """A Skyline span in the client's units."""
    return types.Range(
        to_position(codec, text, span.line, span.column),
        to_position(codec, text, span.end_line, span.end_column),
    )


def line_end(codec: PositionCodec, text: SourceText, line: int) -> types.Position:
    """The position after the last visible character of a line."""
    return to_position(codec, text, line, len(text.line(line).rstrip()))


def line_range(codec: PositionCodec, text: SourceText, line: int) -> types.Range:
    """The range of a line without its indentation and trailing whitespace."""
    content = text.line(line)
    start = len(content) - len(content.lstrip())
    return types.Range(to_position(codec, text, line, start), line_end(codec, text, line))


def line_start(line: int) -> types.Range:
    """The empty range at the start of a line, for lenses."""
    return types.Range(types.Position(line - 1, 0), types.Position(line - 1, 0))


def to_workspace_edit(
    codec: PositionCodec,
    edits: Iterable[TextEdit],
    texts: Mapping[str, SourceText],
    documents: Mapping[str, types.OptionalVersionedTextDocumentIdentifier],
) -> types.WorkspaceEdit:
    """Edits as one versioned change per document. The client applies all or none of them."""
    by_file: dict[str, list[types.TextEdit | types.AnnotatedTextEdit | types.SnippetTextEdit]] = {}
    for edit in edits:
        file = edit.span.file
        change = types.TextEdit(to_range(codec, texts[file], edit.span), edit.new_text)
        by_file.setdefault(file, []).append(change)
    return types.WorkspaceEdit(
        document_changes=[
            types.TextDocumentEdit(documents[file], changes) for file, changes in by_file.items()
        ]
    )


def without_versions(edit: types.WorkspaceEdit) -> types.WorkspaceEdit:
    """The same edit for a client without support for versioned document changes."""
    changes: dict[str, Sequence[types.TextEdit]] = {}
    for change in edit.document_changes or ():
        if isinstance(change, types.TextDocumentEdit):
            plain = [part for part in change.edits if isinstance(part, types.TextEdit)]
            changes[change.text_document.uri] = plain
    return types.WorkspaceEdit(changes=changes)


def to_preview(
    edits: Iterable[TextEdit], texts: Mapping[str, SourceText], uris: Mapping[str, str]
) -> tuple[PreviewEdit, ...]:
    """Edits in the preview's format, always in UTF-16 units, independent of the client's encoding."""
    preview: list[PreviewEdit] = []
    for edit in edits:
        place = to_range(_UTF16, texts[edit.span.file], edit.span)
        preview.append(
            PreviewEdit(
                uri=uris[edit.span.file],
                startLine=place.start.line,
                startColumn=place.start.character,
                endLine=place.end.line,
                endColumn=place.end.character,
                newText=edit.new_text,
            )
        )
    return tuple(preview)
