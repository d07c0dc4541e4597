"""The text of a file as it is now: the editor's buffer where one is open, the disk elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from lsprotocol import types
from pygls.workspace import PositionCodec

from skyline.bounded_read import LARGEST_TEXT_BYTES
from skyline.errors import SkylineError
from skyline.source.text import SourceText
from skyline_lsp import convert, text_changes


@dataclass(slots=True)
class OpenDocument:
    """A document the client holds. ``dirty``: changed by the client since it was last equal to the disk.

    ``base`` is the text on disk that the client's one started from, None where that is not known.
    """

    uri: str
    version: int
    text: SourceText
    dirty: bool
    base: str | None


class Texts:
    """Open documents by path, and what was last read from disk with a stamp that shows when to read again."""

    def __init__(self) -> None:
        self._documents: dict[str, OpenDocument] = {}
        self._open: dict[str, list[OpenDocument]] = {}
        self._disk: dict[str, tuple[tuple[int, int, int], SourceText | None]] = {}

    def opened(self, uri: str, version: int, text: str) -> None:
        """The client opened a document, or opened it anew; other than local files are ignored."""
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
        self,
        uri: str,
        version: int,
        changes: Sequence[types.TextDocumentContentChangeEvent],
        codec: PositionCodec,
    ) -> bool:
        """The client changed a document; False where it is not open, or this came late: a newer one is known."""
        document = self._documents.get(_key(uri))
        if document is None or version < document.version:
            return False
        before = document.text
        mark = "\ufeff" if before.byte_order_mark else ""
        document.text = SourceText.of(before.path, text_changes.changed(mark + before.text, changes, codec))
        document.version = version
        disk = self.disk(before.path)
        document.dirty = disk is None or disk.text != document.text.text
        if not document.dirty:
            # Typed back, or read again from disk.
            document.base = document.text.text
        self._to_front(document)
        return True

    def saved(self, uri: str) -> None:
        """The client wrote a document to disk."""
        document = self._documents.get(_key(uri))
        if document is not None:
            # What the client made of its text while it wrote it, such as a newline at the end, is its own.
            disk = self.disk(document.text.path)
            document.dirty, document.base = False, (disk or document.text).text

    def closed(self, uri: str) -> None:
        """The client let go of a document: another one of the same file counts, or the disk again."""
        document = self._documents.pop(_key(uri), None)
        if document is not None:
            path = document.text.path
            rest = [one for one in self._open[path] if one is not document]
            if rest:
                self._open[path] = rest
            else:
                del self._open[path]

    def document(self, uri: str) -> OpenDocument | None:
        """The open document of a URI, however the client spells it."""
        return self._documents.get(_key(uri)) or self.at(convert.path_of(uri) or "")

    def at(self, path: str) -> OpenDocument | None:
        """The open document of a file; where a client holds it under several names, the one changed last."""
        known = self._open.get(path)
        return known[-1] if known else None

    def outdated(self, path: str) -> bool:
        """Whether another program wrote the file since the client's text of it was read or written.

        What is changed in such a text cannot be saved without losing what the other program wrote.
        """
        document = self.at(path)
        disk = self.disk(path) if document is not None and document.base is not None else None
        return (
            document is not None
            and disk is not None
            and not _alike(disk.text, document.base or "")
            and not _alike(disk.text, document.text.text)
        )

    def uri(self, path: str) -> str:
        """The file's URI as the client spells it."""
        document = self.at(path)
        return document.uri if document else convert.uri_of(path)

    def current(self, path: str) -> SourceText | None:
        """What a run would read, None where there is nothing readable.

        A buffer that the client has not touched since it was equal to the disk gives way to a newer disk:
        another program saved the file, and not every client reloads at once.
        """
        document = self.at(path)
        if document is None or not document.dirty:
            return self.disk(path) or (document.text if document else None)
        return document.text

    def shown(self, path: str) -> SourceText | None:
        """What the person sees, and what an edit must fit: the buffer where there is one."""
        document = self.at(path)
        return document.text if document else self.disk(path)

    def unsaved(self) -> Iterator[SourceText]:
        """Python buffers that differ from the disk."""
        for path, documents in self._open.items():
            document = documents[-1]
            disk = self.disk(path)
            if document.dirty and path.endswith(".py") and (disk is None or disk.text != document.text.text):
                yield document.text

    def disk(self, path: str) -> SourceText | None:
        """The file on disk, read again only when its size, time or identity changed."""
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


def _alike(left: str, right: str) -> bool:
    """The same but for the ends of lines, which a client may keep in its own way."""
    return left == right or left.replace("\r\n", "\n") == right.replace("\r\n", "\n")
