"""The current text of a file: the editor's buffer if the file is open, otherwise the file on disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from lsprotocol import types

from skyline.bounded_read import LARGEST_TEXT_BYTES
from skyline.errors import SkylineError
from skyline.source.text import SourceText
from skyline_lsp import convert


@dataclass(slots=True)
class OpenDocument:
    """An open document of the client. ``dirty``: the client changed it since it last matched the disk.

    ``base`` is the text on disk that the client's edits started from. None if unknown.
    """

    uri: str
    version: int
    text: SourceText
    dirty: bool
    base: str | None


class Texts:
    """Open documents by path, and texts read from disk with a stamp that detects later changes."""

    def __init__(self) -> None:
        self._documents: dict[str, OpenDocument] = {}
        self._open: dict[str, list[OpenDocument]] = {}
        self._disk: dict[str, tuple[tuple[int, int, int], SourceText | None]] = {}

    def opened(self, uri: str, version: int, text: str) -> None:
        """Add a document that the client opened or reopened. URIs other than local files are ignored."""
        path = convert.path_of(uri)
        if path is not None:
            self.closed(uri)
            buffer = SourceText.of(path, text)
            disk = self.disk(path)
            dirty = disk is None or disk.text != buffer.text
            document = OpenDocument(uri, version, buffer, dirty, None if dirty else buffer.text)
            self._documents[_key(uri)] = document
            self._open.setdefault(path, []).append(document)

    def changed(
        self, uri: str, version: int, changes: Sequence[types.TextDocumentContentChangeEvent]
    ) -> bool:
        """Replace a document's text by the last of the whole texts that the client sends.

        Returns False if the document is not open, if a newer version is known, or if the client sends a range although
        the server announces full synchronisation.
        """
        document = self._documents.get(_key(uri))
        if document is None or version < document.version:
            return False
        if any(isinstance(change, types.TextDocumentContentChangePartial) for change in changes):
            return False
        before = document.text
        if changes:
            document.text = SourceText.of(before.path, changes[-1].text)
        document.version = version
        disk = self.disk(before.path)
        document.dirty = disk is None or disk.text != document.text.text
        if not document.dirty:
            # The edit was typed back, or the client reloaded the file.
            document.base = document.text.text
        self._to_front(document)
        return True

    def saved(self, uri: str) -> None:
        """Mark a document as written to disk by the client."""
        document = self._documents.get(_key(uri))
        if document is not None:
            # Changes that the client makes while it saves, such as a final newline, count as its own.
            disk = self.disk(document.text.path)
            document.dirty, document.base = False, (disk or document.text).text

    def closed(self, uri: str) -> None:
        """Remove a closed document. The file's text then comes from another open document of it, or from disk."""
        document = self._documents.pop(_key(uri), None)
        if document is not None:
            path = document.text.path
            rest = [one for one in self._open[path] if one is not document]
            if rest:
                self._open[path] = rest
            else:
                del self._open[path]

    def document(self, uri: str) -> OpenDocument | None:
        """The open document of a URI, in any spelling."""
        return self._documents.get(_key(uri)) or self.at(convert.path_of(uri) or "")

    def at(self, path: str) -> OpenDocument | None:
        """The open document of a file. If it is open under several URIs, the most recently changed one."""
        known = self._open.get(path)
        return known[-1] if known else None

    def outdated(self, path: str) -> bool:
        """True if another program wrote the file since the client last read or wrote it.

        Saving the client's text would then overwrite the other program's changes.
        """
        document = self.at(path)
        disk = self.disk(path) if document is not None and document.base is not None else None
        return (
            document is not None
            and disk is not None
            and not same_text(disk.text, document.base or "")
            and not same_text(disk.text, document.text.text)
        )

    def uri(self, path: str) -> str:
        """The URI of the file in the client's spelling."""
        document = self.at(path)
        return document.uri if document else convert.uri_of(path)

    def current(self, path: str) -> SourceText | None:
        """The text that a run would read. None if the file cannot be read.

        If the buffer has no unsaved changes, the disk counts: another program may have saved the file, and not every
        client reloads it at once.
        """
        document = self.at(path)
        if document is None or not document.dirty:
            return self.disk(path) or (document.text if document else None)
        return document.text

    def shown(self, path: str) -> SourceText | None:
        """The text that the user sees and that edits must match: the buffer if open, otherwise the disk."""
        document = self.at(path)
        return document.text if document else self.disk(path)

    def unsaved(self) -> Iterator[SourceText]:
        """Python buffers that differ from the disk."""
        for path, documents in self._open.items():
            document = documents[-1]
            disk = self.disk(path)
            differs = disk is None or disk.text != document.text.text
            if document.dirty and differs and path.endswith((".py", ".ipynb")):
                yield document.text

    def disk(self, path: str) -> SourceText | None:
        """The file on disk, read again only if its size, modification time or inode changed."""
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            self._disk.pop(path, None)
            return None
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_TEXT_BYTES:
            return None
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = self._disk.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            text = SourceText.read(path)
        except SkylineError:
            text = None
        self._disk[path] = (stamp, text)
        return text

    def _to_front(self, document: OpenDocument) -> None:
        known = self._open[document.text.path]
        if known[-1] is not document:
            known.sort(key=lambda one: one is document)


def _key(uri: str) -> str:
    return unquote(uri)


def same_text(left: str, right: str) -> bool:
    """True if the texts are equal apart from line endings, which a client may convert and a capture may not keep."""
    return left == right or left.replace("\r\n", "\n") == right.replace("\r\n", "\n")
