"""Admission over a TCP port: only a client that sends the token in its first message is served.

Any web page can make a browser connect to a loopback port, and so can any user of the machine. The server therefore
ignores a connection unless its first bytes are a header of the protocol and its first message is ``initialize`` with
the token.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

from lsprotocol import types

from skyline.lazy_dataclass import dataclass
from skyline.settings.model import SECTION

LONGEST_INTRODUCTION = 1 << 20
"""Maximum size of the first message in bytes. Editors send about ten thousand."""
_LONGEST_HEADER = 512
_SHORTEST_TOKEN = 16
_FIELDS = (b"content-length:", b"content-type:")
_HEADER = re.compile(
    rb"(?:content-type:[^\r\n]*\r?\n)?content-length:[ \t]*([0-9]{1,10})[ \t]*\r?\n"
    rb"(?:content-type:[^\r\n]*\r?\n)?\r?\n",
    re.IGNORECASE,
)
_REFUSED = types.LSPErrorCodes.RequestFailed.value


class NotAdmitted(Exception):
    """The first message does not come from a client that knows the token.

    ``answer`` is sent to the client before the connection is closed. Empty if it does not use the protocol.
    """

    def __init__(self, reason: str, answer: bytes = b"") -> None:
        super().__init__(reason)
        self.answer = answer


class TokenUnusable(Exception):
    """The token file cannot be used. The message gives the reason."""


class Doorway:
    """Collects and checks the first message of a connection."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._data = bytearray()

    def feed(self, piece: bytes) -> bytes | None:
        """Add received bytes. Returns all bytes, without the token, once the first message is complete.

        Returns None until then. Raises NotAdmitted if the message is invalid or lacks the token.
        """
        self._data += piece
        found = self._header()
        if found is None:
            return None
        start, length = found.end(), int(found.group(1))
        if length > LONGEST_INTRODUCTION:
            raise NotAdmitted(f"its first message is too large ({length} bytes)")
        if len(self._data) < start + length:
            return None
        body = _without_token(bytes(self._data[start : start + length]), self._token)
        return _framed(body) + bytes(self._data[start + length :])

    def _header(self) -> re.Match[bytes] | None:
        first = bytes(self._data[: max(map(len, _FIELDS))]).lower()
        if not any(first.startswith(field[: len(first)]) for field in _FIELDS):
            raise NotAdmitted("it does not start with a header of the Language Server Protocol")
        found = _HEADER.match(self._data)
        if found is None and (len(self._data) > _LONGEST_HEADER or b"\n\r\n" in self._data):
            raise NotAdmitted("its first header is not one of the Language Server Protocol")
        return found


def _without_token(body: bytes, token: str) -> bytes:
    """The first message without the token, so that the server can log it. Raises NotAdmitted."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise NotAdmitted("its first message is not JSON") from None
    if not isinstance(message, dict) or message.get("method") != types.INITIALIZE:
        raise NotAdmitted(f"its first message is not {types.INITIALIZE}")
    for holder in _holders(cast("dict[str, Any]", message)):
        shown = holder.pop("token", None)
        if isinstance(shown, str) and _same(shown, token):
            return json.dumps(message).encode()
    raise NotAdmitted(f"{types.INITIALIZE} did not contain the token", _refusal(message.get("id")))


def _holders(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects that may hold the token: the options themselves and Skyline's section of them."""
    parameters = message.get("params")
    options = parameters.get("initializationOptions") if isinstance(parameters, dict) else None
    if not isinstance(options, dict):
        return []
    own = options.get(SECTION)
    return [options, own] if isinstance(own, dict) else [options]


def _same(shown: str, token: str) -> bool:
    return hmac.compare_digest(shown.encode("utf-8", "surrogatepass"), token.encode())


def _refusal(request_id: object) -> bytes:
    error = {
        "code": _REFUSED,
        "message": "The token is missing or wrong. Put the content of the token file into "
        "initializationOptions.token. The server prints the path of that file at startup.",
    }
    known = request_id if isinstance(request_id, str | int) else None
    return _framed(json.dumps({"jsonrpc": "2.0", "id": known, "error": error}).encode())


def _framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


@dataclass(frozen=True, slots=True)
class AccessToken:
    """The token that a client must send, and the file that contains it."""

    text: str
    file: Path


@contextlib.contextmanager
def token_in(file: Path | None) -> Generator[AccessToken, None, None]:
    """The token in a file that only this user can read.

    Uses an existing file, or creates one for the duration of the context. ``file`` None: a file in a new temporary
    folder.
    Raises TokenUnusable if others can read the file or it contains no valid token.
    """
    with contextlib.ExitStack() as stack:
        if file is None:
            # TemporaryDirectory makes the folder accessible to this user only.
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="skyline-lsp-"))
            file = Path(folder) / "token"
        try:
            text, made = _made(file), True
        except FileExistsError:
            text, made = _read(file), False
        except OSError as error:
            raise TokenUnusable(f"the token file {file} cannot be written: {error.strerror}") from None
        if made:
            stack.callback(file.unlink, missing_ok=True)
        yield AccessToken(text, file)


def _made(file: Path) -> str:
    text = secrets.token_urlsafe(32)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(f"{text}\n")
    return text


def _read(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as stream:
            status = os.fstat(stream.fileno())
            if os.name == "posix" and (status.st_uid != os.getuid() or status.st_mode & 0o077):
                raise TokenUnusable(f"others can read the token file {file}; run: chmod 600 {file}")
            text = stream.read(LONGEST_INTRODUCTION).strip()
    except (OSError, ValueError) as error:
        raise TokenUnusable(f"the token file {file} cannot be read: {error}") from None
    if len(text) < _SHORTEST_TOKEN:
        raise TokenUnusable(
            f"the token in {file} is shorter than {_SHORTEST_TOKEN} characters; remove the file for a new token"
        )
    return text
