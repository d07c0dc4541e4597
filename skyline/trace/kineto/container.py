"""A trace file as chunks of plain text, for any packing and for incomplete files; its recognition."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from skyline.bounded_read import GZIP, head_unpacked, open_regular
from skyline.errors import UsageError
from skyline.source.cells import SUFFIX
from skyline.trace.kineto.notes import NoteKind, Notes

_READ_BYTES = 1 << 20
_PIECE_BYTES = 4 << 20
_CAREFUL_BYTES = 64
_MOST_PACKED = 100
"""Packed traces take a tenth to a thirtieth of their size. A higher ratio than this is not a trace."""
_ALWAYS_UNPACKED_BYTES = 128 << 20
"""Number of bytes that are unpacked from any file: the ratio of a short file is not conclusive."""
_GZIP_WINDOW = 31  # zlib's code for a gzip header with the largest window

# Common wrong files by their first bytes, with the advice for each.
_OTHERS: tuple[tuple[bytes, str, str], ...] = (
    (b"PK\x03\x04", "a zip archive", "Unpack it and name the trace inside."),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "Unpack it first: zstd -d FILE."),
    (b"BZh", "compressed with bzip2", "Unpack it first: bunzip2 FILE."),
    (b"\xfd7zXZ\x00", "compressed with xz", "Unpack it first: xz -d FILE."),
    (
        b"SQLite format 3",
        "a SQLite database, as Nsight Systems exports",
        "Record with torch.profiler instead.",
    ),
    (
        b"\x80\x02",
        "a pickle",
        "A memory snapshot is not a profiler trace: name the file that export_chrome_trace wrote.",
    ),
    (
        b"\x80\x04",
        "a pickle",
        "A memory snapshot is not a profiler trace: name the file that export_chrome_trace wrote.",
    ),
)


def pieces(path: Path, notes: Notes) -> Iterator[bytes]:
    """The file's text in chunks of a few MB; gzip is recognised by its first bytes, not by the name.

    An incomplete or damaged compressed file yields the part that can be unpacked, and a note. Raises UsageError for a
    file that cannot be opened, is empty or is obviously of another type.
    """
    try:
        with open_regular(path) as file:
            head = file.read(16)
            if not head:
                raise UsageError(f"{path} is empty", hint="Export the trace again.")
            for magic, what, hint in _OTHERS:
                if head.startswith(magic):
                    raise UsageError(f"{path} is {what}, not a profiler trace", hint=hint)
            if b"\0" in head and not head.startswith(GZIP):
                raise UsageError(
                    f"{path} is not text: not a profiler trace",
                    hint="Name a file that export_chrome_trace or tensorboard_trace_handler of torch.profiler wrote.",
                )
            file.seek(0)
            raw = iter(lambda: file.read(_READ_BYTES), b"")
            yield from _unpacked(raw, path, notes) if head.startswith(GZIP) else raw
    except OSError as error:
        hint = "Name a file: the trace of one process." if path.is_dir() else ""
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", hint=hint) from error


def _unpacked(raw: Iterator[bytes], path: Path, notes: Notes) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    taken_bytes = given_bytes = 0
    for packed in raw:
        waiting = packed
        taken_bytes += len(packed)
        while waiting:
            before = unpacker.copy()
            try:
                # Limit the output per call to bound memory: a ratio of 100 is common.
                text = unpacker.decompress(waiting, _PIECE_BYTES)
            except zlib.error:
                yield _up_to_the_damage(before.decompress, waiting)
                notes.say(
                    NoteKind.CUT_OFF, "The compressed file is damaged: the part before the damage was read"
                )
                return
            waiting = unpacker.unconsumed_tail
            given_bytes += len(text)
            if given_bytes > max(_ALWAYS_UNPACKED_BYTES, _MOST_PACKED * (taken_bytes - len(waiting))):
                raise UsageError(
                    f"{path} unpacks to more than {_MOST_PACKED} times its size, unlike any profiler trace",
                    hint="If it is a trace, unpack it first: gunzip FILE.",
                )
            if text:
                yield text
            if unpacker.eof:
                # Another member may follow: files joined with cat are one gzip file.
                waiting = unpacker.unused_data.lstrip(b"\0")
                if not waiting.startswith(GZIP):
                    break
                unpacker = zlib.decompressobj(_GZIP_WINDOW)
    if not unpacker.eof:
        if text := unpacker.flush():
            yield text
        notes.say(NoteKind.CUT_OFF, "The compressed file is cut off: the part before that was read")


def _up_to_the_damage(unpack: Callable[[bytes, int], bytes], packed: bytes) -> bytes:
    """The part of a damaged chunk that can be unpacked."""
    found: list[bytes] = []
    try:
        for at in range(0, len(packed), _CAREFUL_BYTES):
            found.append(unpack(packed[at : at + _CAREFUL_BYTES], _PIECE_BYTES))
    except zlib.error:
        pass
    return b"".join(found)


_HEAD_BYTES = 1 << 16
_KEYS = (b'"traceEvents"', b'"deviceProperties"', b'"baseTimeNanoseconds"', b'"schemaVersion"')
_EVENT = b'"ph"'


def is_trace(path: str | Path) -> bool:
    """True if the file starts like a trace of the PyTorch profiler, packed or not."""
    path = Path(path)
    if path.suffix in {".py", ".pyw", SUFFIX} or not path.is_file():
        return False
    head = head_of(path).lstrip()
    if b'"skyline.' in head[:256]:
        return False
    # Profilers of 2020 and 2021 wrote a bare list of events.
    return any(key in head for key in _KEYS) if head[:1] == b"{" else head[:1] == b"[" and _EVENT in head


def head_of(path: Path) -> bytes:
    """The first bytes of a file, unpacked if it is packed; empty if it is damaged."""
    try:
        return head_unpacked(path, _HEAD_BYTES)
    except gzip.BadGzipFile:
        return b""
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
