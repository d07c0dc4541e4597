"""Answers ``initialize`` with the stored answer of an earlier session while the server is being imported.

The answer depends only on the client's capabilities and on the version of the server. Once imported, the server
handles the request too. Its own answer is not sent a second time, but stored for the next start.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from skyline.version import __version__
from skyline_lsp.frames import Frames, parsed

_PIECE = 1 << 16
_MOST_KEPT = 20
_LARGEST_BYTES = 1 << 20
"""Maximum size of a stored answer and of the first message, in bytes. Answers take a few KB."""
_OF_THE_SESSION = frozenset(
    ("processId", "rootPath", "rootUri", "workspaceFolders", "initializationOptions", "workDoneToken")
)
"""Params that differ between sessions. The answer does not depend on them."""

Json = dict[str, Any]


def default_folder() -> Path:
    """The folder of the stored answers, in the user's cache."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "skyline" / "initialize"


class Greeting:
    """Reads the client's first message on a separate thread, and answers it if an answer is stored.

    ``wait`` returns the bytes that were read. The other attributes are final only afterwards: ``key`` is the name of
    the stored answer, empty if the message is not a usual ``initialize``. ``answer`` is the answer that was sent, or
    None.
    """

    def __init__(self, source: int, writer: BinaryIO, folder: Path) -> None:
        self.key = ""
        self.message_id: int | str | None = None
        self.answer: Json | None = None
        self._folder = folder
        self._received = b""
        self._thread = threading.Thread(
            target=self._greet, args=(source, writer), name="greeting", daemon=True
        )
        self._thread.start()

    def wait(self) -> bytes:
        """Wait until the first message is complete. Returns all bytes read until then."""
        self._thread.join()
        return self._received

    def is_answered(self, message_id: int | str) -> bool:
        """True if the answer to this request was sent."""
        return self.answer is not None and message_id == self.message_id

    def keep(self, answer: Json) -> None:
        """Store the server's own answer if it differs from the answer that was sent. Keeps the newest 20 answers."""
        if not self.key or answer == self.answer:
            return
        with contextlib.suppress(OSError, ValueError):
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / self.key
            part = path.with_name(f".{self.key}.{os.getpid()}")
            part.write_text(json.dumps(answer), encoding="utf-8")
            part.replace(path)
            kept = sorted(self._folder.iterdir(), key=lambda each: each.stat().st_mtime)
            for old in kept[:-_MOST_KEPT]:
                old.unlink()

    def _greet(self, source: int, writer: BinaryIO) -> None:
        frames = Frames()
        body = None
        while body is None and len(self._received) < _LARGEST_BYTES:
            try:
                piece = os.read(source, _PIECE)
            except OSError:
                return
            if not piece:
                return
            self._received += piece
            body = next(iter(frames.feed(piece)), None)
        with contextlib.suppress(OSError, ValueError, RecursionError):
            self._answer(parsed(body or b""), writer)

    def _answer(self, message: Any, writer: BinaryIO) -> None:
        if not _is_usual(message):
            return
        self.message_id = message["id"]
        self.key = key_of(message["params"])
        with open(self._folder / self.key, "rb") as file:
            kept = json.loads(file.read(_LARGEST_BYTES))
        if not isinstance(kept, dict) or not isinstance(kept.get("capabilities"), dict):
            return
        text = json.dumps({"jsonrpc": "2.0", "id": self.message_id, "result": kept}).encode()
        writer.write(b"Content-Length: %d\r\n\r\n" % len(text) + text)
        writer.flush()
        self.answer = kept


def _is_usual(message: Any) -> bool:
    """True for an ``initialize`` whose params are valid in the fields that do not affect its answer."""
    if (
        not isinstance(message, dict)
        or message.get("jsonrpc") != "2.0"
        or message.get("method") != "initialize"
    ):
        return False
    msg_id, params = message.get("id"), message.get("params")
    if not isinstance(msg_id, int | str) or isinstance(msg_id, bool) or not isinstance(params, dict):
        return False
    folders = params.get("workspaceFolders")
    return (
        _is_whole(params.get("processId", 0), optional=True)
        and isinstance(params.get("rootPath"), str | None)
        and (params.get("rootUri") is None or _is_file(params["rootUri"]))
        and (folders is None or (isinstance(folders, list) and all(map(_is_folder, folders))))
        and (isinstance(token := params.get("workDoneToken", 0), str) or _is_whole(token))
    )


def _is_whole(value: object, *, optional: bool = False) -> bool:
    if value is None:
        return optional
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31


def _is_file(uri: object) -> bool:
    return isinstance(uri, str) and uri.startswith("file:///")


def _is_folder(value: object) -> bool:
    return isinstance(value, dict) and _is_file(value.get("uri")) and isinstance(value.get("name"), str)


def key_of(params: Json) -> str:
    """A name for the params that the answer depends on, and for this version of the server and of pygls."""
    told = {name: value for name, value in params.items() if name not in _OF_THE_SESSION}
    text = json.dumps([told, __version__, *_versions()], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _versions() -> list[object]:
    """Names, sizes and modification times of the modules that determine an answer."""
    found: list[object] = []
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (here, os.path.join(here, "features")):
        with os.scandir(folder) as entries:
            found += sorted(
                [entry.name, entry.stat().st_size, entry.stat().st_mtime_ns]
                for entry in entries
                if entry.name.endswith(".py")
            )
    for library in ("pygls", "lsprotocol"):
        spec = find_spec(library)
        if spec is not None and spec.origin:
            status = os.stat(spec.origin)
            found.append([spec.origin, status.st_size, status.st_mtime_ns])
    return found
