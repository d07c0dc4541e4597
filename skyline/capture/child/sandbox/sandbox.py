"""Keeps what a profiled run does to the world away from the person's files and accounts, and lists it.

What the script or a library writes goes to a scratch folder, and reading it back finds it there; what it
removes or renames only seems so. Caches of libraries are theirs and pass; what is fetched is taken out of the scratch
folder by the parent process. Beneath lies the kernel's lock, where there is one: it holds for native code and for
programs that the script starts, too.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from . import file_calls, landlock, native_writers, outside, refusal, script_profilers, trackers
from .effects import EffectLog
from .overlay import Overlay
from .write_policy import WritePolicy, user_name

ALLOW = "allow"
STATE_NAME = "protection.json"
_SWITCH = "SKYLINE_LANDLOCK"
_INHERITED = "SKYLINE_LANDLOCK_HELD"
_WRITABLE_DEVICES = ("/dev", "/proc")
_WRITABLE = ("/dev/shm", "/tmp/nvidia-mps")


class Sandbox:
    """The scratch folder of a run; ``policy`` is ``redirect``, or ``allow``: everything happens and is noted."""

    def __init__(self, folder, script="", policy="redirect", network="open"):
        self._folder = os.path.realpath(folder)
        self._redirects = policy != ALLOW
        self._local = network == "loopback"
        self.log = EffectLog(self._folder)
        self._writes = WritePolicy(self._folder, (os.path.dirname(script) or os.curdir, _working_folder()))
        self._overlay = Overlay(self._folder, self._writes, self.log, redirects=self._redirects)

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
        outside.install(self.log, redirects=self._redirects, local=self._local)
        script_profilers.install(self.log)
        self._lock()

    def _lock(self):
        """Last of all the kernel's lock, and a word to the parent on what holds."""
        if not self._redirects:
            self._tell("off", "allowed by --side-effects")
            return
        granted = (self._folder, *_WRITABLE, *self._writes.make_caches())
        if os.environ.get(_SWITCH) == "0":
            self._tell("interception only", f"switched off by {_SWITCH}")
            return
        # A process that the run started has it from there; each more would count against the kernel's limit.
        if os.environ.get(_INHERITED) != self._folder:
            try:
                version = landlock.restrict(granted, _WRITABLE_DEVICES)
            except (landlock.Unavailable, OSError, AttributeError) as error:
                self._tell("interception only", str(error))
                return
            os.environ[_INHERITED] = self._folder
            self._tell("kernel", landlock.gaps(version))
        refusal.begin((*granted, *_WRITABLE_DEVICES), self.log)

    def _tell(self, state, reason):
        try:
            with self._overlay.native.builtin_open(os.path.join(self._folder, STATE_NAME), "w") as file:
                network = "loopback" if self._local else "open"
                json.dump({"state": state, "reason": reason, "network": network}, file)
        except OSError:
            pass  # the profile then says nothing of it

    def _move_temporary_files(self):
        """Temporary files go where they are cleared away: the run ends without its exit handlers."""
        compiled = os.path.join(tempfile.gettempdir(), "torchinductor_" + user_name())
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
