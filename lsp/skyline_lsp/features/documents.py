"""Handles documents that the client opens, edits, saves and closes."""

from __future__ import annotations

import logging

from lsprotocol import types

from skyline_lsp import convert
from skyline_lsp.convert import NO_NOTEBOOKS, NOTEBOOK_HINT, is_notebook
from skyline_lsp.server import SkylineServer

logger = logging.getLogger(__name__)


def register(server: SkylineServer) -> None:
    """Track the text of every document."""

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        if is_notebook(document.uri):
            server.once(f"{NO_NOTEBOOKS}. {NOTEBOOK_HINT}")
            return
        server.texts.opened(document.uri, document.version, document.text)
        path = convert.path_of(document.uri)
        if path is None:
            return
        if server.is_training_script(path):
            server.touch(document.uri)
        server.texts_changed(path)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        uri, version = params.text_document.uri, params.text_document.version
        if server.texts.changed(uri, version, params.content_changes):
            server.texts_changed(convert.path_of(uri) or "")
        else:
            logger.warning(
                "ignored version %d of %.200s: it is not open, not the newest, or not a whole text",
                version,
                uri,
            )

    @server.feature(types.TEXT_DOCUMENT_WILL_SAVE)
    def saving(params: types.WillSaveTextDocumentParams) -> None:
        server.saves.about_to_save(convert.path_of(params.text_document.uri) or "", params.reason)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        server.texts.saved(params.text_document.uri)
        server.saves.saved(convert.path_of(params.text_document.uri) or "")

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        server.texts.closed(params.text_document.uri)
        server.texts_changed(convert.path_of(params.text_document.uri) or "")

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def on_disk(params: types.DidChangeWatchedFilesParams) -> None:
        for change in params.changes:
            server.saves.changed_on_disk(convert.path_of(change.uri) or "")
