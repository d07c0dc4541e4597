"""Follows the notebooks that the client opens, edits, saves and closes."""

from __future__ import annotations

from lsprotocol import types

from skyline_lsp import convert
from skyline_lsp.notebooks import Cell, OpenNotebook
from skyline_lsp.server import SkylineServer


def register(server: SkylineServer) -> None:
    """Track the script of every notebook."""

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenNotebookDocumentParams) -> None:
        told, texts = params.notebook_document, {item.uri: item for item in params.cell_text_documents}
        notebook = OpenNotebook(told.uri, told.version, [_cell(cell, texts) for cell in told.cells])
        server.protocol.notebooks.opened(notebook)
        server.texts.opened(notebook.uri, notebook.version, notebook.script)
        path = convert.path_of(notebook.uri)
        if path is not None:
            if server.is_training_script(path):
                server.touch(notebook.uri)
            server.texts_changed(path)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeNotebookDocumentParams) -> None:
        notebook = server.protocol.notebooks.at(params.notebook_document.uri)
        if notebook is None:
            return
        if params.change.cells is not None:
            _change(notebook, params.change.cells)
        notebook.version = max(notebook.version, params.notebook_document.version)
        whole = types.TextDocumentContentChangeWholeDocument(notebook.script)
        if server.texts.changed(notebook.uri, notebook.version, [whole]):
            server.texts_changed(convert.path_of(notebook.uri) or "")

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveNotebookDocumentParams) -> None:
        uri = params.notebook_document.uri
        server.texts.saved(uri)
        server.saves.saved(convert.path_of(uri) or "")

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseNotebookDocumentParams) -> None:
        uri = params.notebook_document.uri
        server.texts.closed(uri)
        server.texts_changed(convert.path_of(uri) or "")
        server.protocol.notebooks.closed(uri)


def _cell(told: types.NotebookCell, texts: dict[str, types.TextDocumentItem]) -> Cell:
    item = texts.get(told.document)
    code = told.kind == types.NotebookCellKind.Code and item is not None and item.language_id == "python"
    return Cell(told.document, item.version if item else 0, item.text if item else "", code)


def _change(notebook: OpenNotebook, change: types.NotebookDocumentCellChanges) -> None:
    structure = change.structure
    if structure is not None:
        texts = {item.uri: item for item in structure.did_open or ()}
        known = {cell.uri: cell for cell in notebook.cells}
        added = [
            _cell(cell, texts) if cell.document in texts else known.get(cell.document) or _cell(cell, texts)
            for cell in structure.array.cells or ()
        ]
        start = structure.array.start
        notebook.cells[start : start + structure.array.delete_count] = added
    by_uri = {cell.uri: cell for cell in notebook.cells}
    for content in change.text_content or ():
        cell = by_uri.get(content.document.uri)
        for edit in content.changes if cell is not None else ():
            assert cell is not None
            cell.text = _edited(cell.text, edit)
            cell.version = content.document.version


def _edited(text: str, change: types.TextDocumentContentChangeEvent) -> str:
    """The text of a cell after an edit. Clients send ranges for cells whatever synchronisation the server announces."""
    if not isinstance(change, types.TextDocumentContentChangePartial):
        return change.text
    start, end = _offset(text, change.range.start), _offset(text, change.range.end)
    return text[:start] + change.text + text[end:]


def _offset(text: str, place: types.Position) -> int:
    lines = text.split("\n")
    before = lines[: place.line]
    line = lines[place.line] if place.line < len(lines) else ""
    columns = line.encode("utf-16-le")[: 2 * place.character].decode("utf-16-le", "ignore")
    return min(len(text), sum(len(one) + 1 for one in before) + len(columns))
