"""Writes files completely or not at all: a full disk must not empty a user's source."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

_NO_NEW_NAME = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY}
"""The folder accepts no new file, or the file is a mount. It can still be written, but not replaced."""


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file in one step. Keep its permissions, and follow a link to its target.

    A device or pipe, such as ``/dev/null``, is written to, because replacing it by a file would break other
    programs. Raises OSError and leaves the file unchanged.
    """
    target = path.resolve()
    if is_special(target):
        target.write_bytes(data)
        return
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    try:
        _replace(target, data, mode if mode is not None else 0o666 & ~_umask())
    except OSError as error:
        if mode is None or error.errno not in _NO_NEW_NAME:
            raise
        target.write_bytes(data)


def all_or_none(changes: Iterable[tuple[Callable[[], None], Callable[[], None]]]) -> None:
    """Make each of these changes of files. If one fails, undo those before it, and raise its error.

    A change is a pair: the first function makes it, and the second one undoes it.
    """
    with contextlib.ExitStack() as made:
        for make, undo in changes:
            make()
            made.callback(_without_error, undo)
        made.pop_all()


def _without_error(undo: Callable[[], None]) -> None:
    with contextlib.suppress(Exception):
        undo()


def is_special(path: Path) -> bool:
    """True for a path that exists and is not a regular file: a device, a pipe, a socket."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _replace(target: Path, data: bytes, mode: int) -> None:
    import tempfile

    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
