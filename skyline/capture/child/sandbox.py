"""Keeps what a profiled run writes away from the person's files.

Files that the script itself opens for writing go to a scratch folder, and reading them back finds them
there; ``torch.save`` goes the same way. Writes by libraries (caches, compiled extensions) are theirs and pass.
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
import sys

from . import user_code

_THROUGH = ("/dev/", "/proc/", "/sys/")
_OPENERS = (
    os.sep + "pathlib.py",
    os.sep + "pathlib" + os.sep,
    os.sep + "serialization.py",
    os.sep + "csv.py",
)


class Sandbox:
    """The scratch folder and the map from real paths to their scratch copies."""

    def __init__(self, folder):
        self._folder = folder
        self._copies = {}
        self._open = builtins.open

    def install(self):
        """Patch the ways in which a script writes files."""
        builtins.open = self._opened
        io.open = self._opened
        for name in ("replace", "rename"):
            setattr(os, name, self._moving(getattr(os, name)))

    def saving(self, save):
        """``torch.save`` with its target moved: it writes from C++, past ``open``."""

        def saved(obj, f, *args, **kwargs):
            if isinstance(f, (str, os.PathLike)):
                f = self._redirect(f, "wb", by_user=True)
            return save(obj, f, *args, **kwargs)

        return saved

    def _opened(self, file, mode="r", *args, **kwargs):
        if isinstance(file, (str, bytes, os.PathLike)) and isinstance(mode, str):
            file = self._redirect(file, mode)
        return self._open(file, mode, *args, **kwargs)

    def _redirect(self, file, mode, by_user=None):
        path = os.path.realpath(os.fsdecode(file))
        copy = self._copies.get(path)
        if not any(letter in mode for letter in "wax+"):
            return copy or file
        if copy is not None:
            return copy
        if path.startswith(_THROUGH) or path.startswith(self._folder):
            return file
        if not (_opened_by_user() if by_user is None else by_user):
            return file
        copy = os.path.join(self._folder, f"{len(self._copies)}-{os.path.basename(path)}")
        if "w" not in mode and os.path.exists(path):
            if "x" in mode:
                return file
            shutil.copyfile(path, copy)
        self._copies[path] = copy
        return copy

    def _moving(self, move):
        def moved(source, target, *args, **kwargs):
            path = (
                os.path.realpath(os.fsdecode(source))
                if isinstance(source, (str, bytes, os.PathLike))
                else None
            )
            if path in self._copies:
                self._copies[os.path.realpath(os.fsdecode(target))] = self._copies.pop(path)
                return None
            return move(source, target, *args, **kwargs)

        return moved


def _opened_by_user():
    """Whether the call to open() came from the person's code, directly or through a thin library wrapper."""
    frame = sys._getframe(3)
    while frame is not None and (
        frame.f_code.co_filename.startswith("<") or any(part in frame.f_code.co_filename for part in _OPENERS)
    ):
        frame = frame.f_back
    return frame is not None and user_code.is_user_file(frame.f_code.co_filename)
