"""Reads of untrusted files: regular files only, and at most a given size.

A named pipe without a writer blocks its reader, some devices never end, and 4 MB of gzip can hold 4 GB.
"""

from __future__ import annotations

import errno
import gzip
import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

GZIP = b"\x1f\x8b"
"""The first bytes of a gzip file."""
LARGEST_TEXT_BYTES = 1 << 25
"""Largest source or settings file. The largest ones in use are below 1 MB; generated ones reach 10 MB."""

# Opening a pipe then returns immediately, in case one replaces the file after the check.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_MEGABYTE = 1 << 20


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file for reading bytes. Raises OSError, also for a folder, a pipe, a socket or a device."""
    try:
        _check_regular(os.stat(path), path)
        descriptor = os.open(path, _FLAGS)
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error), str(path)) from error  # a NUL in the name
    try:
        _check_regular(os.fstat(descriptor), path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bounded(path: str | Path, most_bytes: int) -> bytes:
    """The contents of a regular file. Raises OSError, also if it is larger than ``most_bytes``."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > most_bytes:
            raise _too_large(most_bytes, path)
        return _at_most(file, most_bytes, path)


def read_start(path: str | Path, size_bytes: int) -> bytes:
    """The first bytes of a regular file. Raises OSError."""
    with open_regular(path) as file:
        return file.read(size_bytes)


def read_unpacked(path: str | Path, most_bytes: int) -> bytes:
    """The contents of a regular file, unpacked if it is gzip; ``most_bytes`` limits the unpacked size.

    Raises gzip.BadGzipFile, an OSError, if it is damaged.
    """
    return _unpacked(path, lambda file: _at_most(file, most_bytes, path))


def head_unpacked(path: str | Path, size_bytes: int) -> bytes:
    """The first bytes of a regular file, unpacked if it is gzip. Raises OSError like ``read_unpacked``."""
    return _unpacked(path, lambda file: file.read(size_bytes))


def _unpacked(path: str | Path, read: Callable[[BinaryIO | gzip.GzipFile], bytes]) -> bytes:
    with open_regular(path) as file:
        packed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        if not packed:
            return read(file)
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                return read(unpacked)
        except (EOFError, zlib.error) as error:
            raise gzip.BadGzipFile(str(error)) from error


def _at_most(file: BinaryIO | gzip.GzipFile, most_bytes: int, path: str | Path) -> bytes:
    data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise _too_large(most_bytes, path)
    return data


def _too_large(most_bytes: int, path: str | Path) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {most_bytes / _MEGABYTE:.0f} MB", str(path))


def _check_regular(status: os.stat_result, path: str | Path) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        kind = next((words for is_kind, words in _KINDS if is_kind(status.st_mode)), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
