"""The folder that holds everything that a run writes, and that is removed after the run."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
import weakref
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from skyline.errors import CaptureImpossible

_PREFIX = "skyline-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE = 0o700


class Scratch:
    """A new folder in the temporary folder, removed by ``cleanup`` or when this process ends."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix=_PREFIX)
        self._remove = weakref.finalize(self, remove_tree, self.name)

    def cleanup(self) -> None:
        """Remove the folder with all its contents. May be called again."""
        self._remove()


def make_scratch() -> Scratch:
    """A new folder on a disk with free space. Raises CaptureImpossible if there is none."""
    try:
        folder = Scratch()
    except OSError as error:
        raise CaptureImpossible(
            f"No temporary folder can be made: {error.strerror or error}",
            hint="Set TMPDIR to a writable folder with free space.",
        ) from error
    # A full disk may accept a new folder, but no files in it.
    probe = Path(folder.name) / "room"
    try:
        probe.write_bytes(bytes(65536))
        probe.unlink()
    except OSError as error:
        place = Path(folder.name).parent
        folder.cleanup()
        raise CaptureImpossible(
            f"The temporary folder {place} cannot be written: {error.strerror or error}",
            hint="Free space there, or set TMPDIR to another folder.",
        ) from error
    return folder


def remove_tree(path: str) -> None:
    """Remove a folder that a hostile script filled: links are not followed, and any depth works.

    The standard library's removal of a temporary folder changes the mode of the target of a link (CVE-2023-6597),
    and its recursion fails at a depth of a thousand folders. Here each folder is moved to the top before it is
    emptied, and only modes of folders are changed. The processes of the run have ended, so that nothing changes
    between the check of a name and its use. Files that cannot be removed stay.
    """
    names = (f"{secrets.token_hex(8)}-{number}" for number in count())
    with contextlib.suppress(OSError):
        top = os.open(path, _FOLDER)
        try:
            os.fchmod(top, _MODE)
            waiting = _emptied(top, top, names)
            while waiting:
                name = waiting.pop()
                with contextlib.suppress(OSError):
                    folder = os.open(name, _FOLDER, dir_fd=top)
                    try:
                        waiting += _emptied(folder, top, names)
                    finally:
                        os.close(folder)
                    os.rmdir(name, dir_fd=top)
        finally:
            os.close(top)
        os.rmdir(path)


def _emptied(folder: int, top: int, names: Iterator[str]) -> list[str]:
    """Remove the files of an open folder and move its folders to the top; returns their names there."""
    moved: list[str] = []
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                os.unlink(name, dir_fd=folder)
                continue
            os.chmod(name, _MODE, dir_fd=folder)  # a folder that is not writable cannot be moved
            place = next(names)
            os.rename(name, place, src_dir_fd=folder, dst_dir_fd=top)
            moved.append(place)
    return moved
