"""Writes of files that are whole or unchanged: a full disk must not empty the source of a user."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

_NO_NEW_NAME = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY}
"""The folder takes no new file, or the file itself is a mount: it can still be written, but not replaced."""


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file in one step, keeping its permissions and following a link to the file it points at.

    A device or pipe, such as ``/dev/null``, is written to: a file in its place would be in everybody's way. Raises
    OSError, with the file as it was.
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


def is_special(path: Path) -> bool:
    """True for a path that exists and is no regular file: a device, a pipe, a socket."""
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
