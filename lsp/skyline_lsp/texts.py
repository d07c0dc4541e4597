"""The text of a file as it is now: the editor's buffer where one is open, the disk elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from skyline.errors import SkylineError
from skyline.source.text import SourceText
from skyline_lsp import convert


@dataclass(slots=True)
class OpenDocument:
    """A document the client holds. ``dirty``: changed by the client since it was last equal to the disk."""

    uri: str
    version: int
    text: SourceText
    dirty: bool


class Texts:
    """Open documents by path, and what was last read from disk with a stamp that shows when to read again."""

    def __init__(self) -> None:
        self._open: dict[str, OpenDocument] = {}
        self._disk: dict[str, tuple[tuple[int, int, int], SourceText | None]] = {}

    def opened(self, uri: str, version: int, text: str) -> None:
        """The client opened a document; other than local files are ignored."""
        path = convert.path_of(uri)
        if path is not None:
            buffer = SourceText.of(path, text)
            disk = self.disk(path)
            dirty = disk is None or disk.text != buffer.text
            self._open[path] = OpenDocument(uri, version, buffer, dirty)

    def changed(self, uri: str, version: int, text: str) -> None:
        """The client changed a document."""
        document = self.document(uri)
        if document is not None:
            document.text = SourceText.of(document.text.path, text)
            document.version, document.dirty = version, True

    def saved(self, uri: str) -> None:
        """The client wrote a document to disk."""
        document = self.document(uri)
        if document is not None:
            document.dirty = False

    def closed(self, uri: str) -> None:
        """The client let go of a document: the disk counts again."""
        self._open.pop(convert.path_of(uri) or "", None)

    def document(self, uri: str) -> OpenDocument | None:
        """The open document of a URI, however the client spells it."""
        return self._open.get(convert.path_of(uri) or "")

    def at(self, path: str) -> OpenDocument | None:
        """The open document of a file."""
        return self._open.get(path)

    def uri(self, path: str) -> str:
        """The file's URI as the client spells it."""
        document = self._open.get(path)
        return document.uri if document else convert.uri_of(path)

    def current(self, path: str) -> SourceText | None:
        """What a run would read, None where there is nothing readable.

        A buffer that the client has not touched since it was equal to the disk gives way to a newer disk:
        another program saved the file, and not every client reloads at once.
        """
        document = self._open.get(path)
        if document is None or not document.dirty:
            return self.disk(path) or (document.text if document else None)
        return document.text

    def shown(self, path: str) -> SourceText | None:
        """What the person sees, and what an edit must fit: the buffer where there is one."""
        document = self._open.get(path)
        return document.text if document else self.disk(path)

    def unsaved(self) -> Iterator[SourceText]:
        """Python buffers that differ from the disk."""
        for path, document in self._open.items():
            disk = self.disk(path)
            if document.dirty and path.endswith(".py") and (disk is None or disk.text != document.text.text):
                yield document.text

    def disk(self, path: str) -> SourceText | None:
        """The file on disk, read again only when its size, time or identity changed."""
        try:
            status = os.stat(path)
        except OSError:
            self._disk.pop(path, None)
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
