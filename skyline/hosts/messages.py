"""The conversation between ``skyline profile --host`` and ``skyline receive`` on the host: one JSON object per line.

1. ``Order`` to the host, ``Answer`` from it.
2. For each wanted file, in the order of the answer: a line with its size in bytes, then its bytes.
3. ``Outcome`` from the host, then the bytes of the profile.

The host's stderr carries progress and the script's output. The end of the host's stdin ends the run.
"""

from __future__ import annotations

from typing import IO, TypeVar

import msgspec

from skyline.lazy_dataclass import dataclass

PART_BYTES = 1 << 20
"""Size of the parts in which files are read and written."""


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A file of the project: ``path`` relative to it, with slashes; ``link`` is the target of a symbolic link."""

    path: str
    sha256: str = ""
    link: str = ""
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """A run of ``skyline profile`` with ``options`` and ``words`` (script or launcher, with arguments).

    ``project`` names the copy on the host, ``directory`` the working directory relative to the copy. ``variables`` are
    added to the environment there.
    """

    project: str
    files: tuple[ProjectFile, ...]
    directory: str
    options: tuple[str, ...]
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The indexes of files that the host lacks, or ``refusal`` and ``hint`` if it cannot take the project."""

    wanted: tuple[int, ...] = ()
    refusal: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The exit code of the command on the host, and the size of the profile in bytes (0: no profile)."""

    code: int
    profile_bytes: int


_Message = TypeVar("_Message", Order, Answer, Outcome)


def send(stream: IO[bytes], message: Order | Answer | Outcome) -> None:
    """Write a message."""
    stream.write(msgspec.json.encode(message) + b"\n")
    stream.flush()


def receive(stream: IO[bytes], kind: type[_Message]) -> _Message:
    """Read a message. Raises EOFError if the stream ends before it, ``msgspec.DecodeError`` for anything else."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return msgspec.json.decode(line, type=kind)
