"""Distinguishes writes that the kernel refused because of Skyline from writes that were never allowed."""

from __future__ import annotations

import errno
import os
import subprocess

_ACCESS = os.access
_ABSOLUTE = os.path.abspath
_WORDS = ("Permission denied", "unable to open database file", "readonly database", "cannot be opened")
_open_folders = []
_logs = []


def begin(folders, log):
    """Log refused writes from now on: the kernel refuses writes outside these folders."""
    _logs[:] = [log]
    _open_folders[:] = [folder.rstrip(os.sep) + os.sep for folder in folders]


def path_of(error):
    """The path of an error for a write that was refused because of Skyline; None for other errors.

    ``access`` ignores Landlock: if it reports a refused path as writable, Landlock refused the write.
    """
    if not _open_folders or not isinstance(error, OSError) or error.errno != errno.EACCES:
        return None
    for name in (error.filename, error.filename2):
        if not isinstance(name, (str, bytes, os.PathLike)):
            continue
        path = _ABSOLUTE(os.fsdecode(name))
        place = path if os.path.lexists(path) else os.path.dirname(path)
        if not path.startswith(tuple(_open_folders)) and _ACCESS(place, os.W_OK):
            return path
    return None


def note(error):
    """Log a refused write; returns its path, or None for other errors."""
    path = path_of(error)
    if path is not None:
        _logs[0].note("file", path, "refused")
    return path


def explanation(error):
    """Text to add to the message of an error that ended the script; empty if Skyline is not the cause."""
    if not _open_folders:
        return ""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        path = note(error)
        if path is not None:
            return f"Skyline blocks writes of the run to {path}; run with --side-effects allow"
        if isinstance(error, subprocess.CalledProcessError):
            return (
                "Skyline blocks writes outside the scratch folder by programs that the script starts, "
                "which may be the cause; run with --side-effects allow"
            )
        text = str(error)
        if not isinstance(error, OSError) and any(word in text for word in _WORDS):
            return (
                "Skyline blocks writes outside the scratch folder, which may be the cause; "
                "run with --side-effects allow"
            )
        error = error.__cause__ or error.__context__
    return ""
