"""Keeps what a profiled run does to the world away from the person's files and accounts, and lists it.

What the script or a library writes goes to a scratch folder, and reading it back finds it there; what it
removes or renames only seems so. Caches of libraries and downloads are theirs and pass.
"""

from __future__ import annotations

import os
import sys
import tempfile

from . import file_calls, native_writers, outside, script_profilers, trackers
from .effects import EffectLog
from .overlay import Overlay
from .write_policy import WritePolicy

ALLOW = "allow"


class Sandbox:
    """The scratch folder of a run; ``policy`` is ``redirect``, or ``allow``: everything happens and is noted."""

    def __init__(self, folder, script="", policy="redirect"):
        self._folder = os.path.realpath(folder)
        self._redirects = policy != ALLOW
        self.log = EffectLog(self._folder)
        writes = WritePolicy(self._folder, (os.path.dirname(script) or os.curdir, _working_folder()))
        self._overlay = Overlay(self._folder, writes, self.log, redirects=self._redirects)

    def install(self):
        """Patch the ways in which a script reaches the world; it runs afterwards."""
        if self._redirects:
            # Compiled modules beside the person's sources are files too.
            sys.dont_write_bytecode = True
            self._move_temporary_files()
            trackers.hold_back(self._folder, self.log)
        else:
            trackers.allow(self.log)
        file_calls.install(self._overlay)
        native_writers.install(self._overlay)
        outside.install(self.log, redirects=self._redirects)
        script_profilers.install(self.log)

    def _move_temporary_files(self):
        """Temporary files go where they are cleared away: the run ends without its exit handlers."""
        compiled = os.path.join(tempfile.gettempdir(), "torchinductor_" + _user())
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", compiled)
        folder = os.path.join(self._folder, "t")
        os.makedirs(folder, exist_ok=True)
        for name in ("TMPDIR", "TEMP", "TMP"):
            os.environ[name] = folder
        tempfile.tempdir = None


def _working_folder():
    try:
        return os.getcwd()
    except OSError:
        return os.sep


def _user():
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "user"
