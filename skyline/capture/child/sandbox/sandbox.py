"""Prevents effects of a profiled run on the user's files and accounts, and logs them.

Writes of the script and of libraries go to a scratch folder, and reads find them there. Files that the script
removes or renames are unchanged. Caches of libraries are really written; the parent process moves downloads out of
the scratch folder. In addition, the kernel's lock, if available, also restricts native code and programs that the
script starts.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from .. import user_code
from . import file_calls, landlock, native_writers, network_and_programs, refusal, trackers
from .overlay import Overlay
from .write_policy import WritePolicy, user_name

ALLOW = "allow"
STATE_NAME = "protection.json"
_SWITCH = "SKYLINE_LANDLOCK"
_INHERITED = "SKYLINE_LANDLOCK_HELD"
_WRITABLE_DEVICES = ("/dev", "/proc")
_WRITABLE = ("/dev/shm", "/tmp/nvidia-mps")


class Sandbox:
    """The sandbox of a run; ``policy`` is ``redirect``, or ``allow``: everything happens, and is logged."""

    def __init__(self, folder, script="", policy="redirect", network="open"):
        self._folder = os.path.realpath(folder)
        self._redirects = policy != ALLOW
        self._local = network == "loopback"
        self.log = EffectLog(self._folder)
        self._writes = WritePolicy(self._folder, (os.path.dirname(script) or os.curdir, _working_folder()))
        self._overlay = Overlay(self._folder, self._writes, self.log, redirects=self._redirects)

    def install(self):
        """Patch the calls with effects outside the process; call it before the script runs."""
        if self._redirects:
            # Bytecode files next to the user's sources would be writes too.
            sys.dont_write_bytecode = True
            self._move_temporary_files()
            trackers.hold_back(self._folder, self.log)
        else:
            trackers.allow(self.log)
        file_calls.install(self._overlay)
        native_writers.install(self._overlay)
        network_and_programs.install(self.log, redirects=self._redirects, local=self._local)
        trackers.hold_profilers(self.log)
        self._lock()

    def _lock(self):
        """Set the kernel's lock, as the last step, and report the protection to the parent."""
        if not self._redirects:
            self._tell("off", "allowed by --side-effects")
            return
        granted = (self._folder, *_WRITABLE, *self._writes.make_caches())
        if os.environ.get(_SWITCH) == "0":
            self._tell("interception only", f"switched off by {_SWITCH}")
            return
        # A process that the run started inherits the lock; further locks would count against the kernel's limit.
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
            pass  # the profile then has no information about the protection

    def _move_temporary_files(self):
        """Put temporary files into the scratch folder, since the run ends without its exit handlers."""
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


LOG_NAME = "effects.jsonl"
FETCHED_NAME = "fetched.jsonl"
_ALWAYS_LOGGED = 4
_MOST_TARGETS = 2000


class EffectLog:
    """Appends one line of JSON per effect to a file in the scratch folder.

    Forked workers append to the same file, each with its own process id. A repeated effect is written the first few
    times and then at every doubling of its count, so that a script that logs in each iteration costs almost nothing.
    The count is therefore a lower bound within a factor of two.
    """

    def __init__(self, folder, opened=os.open, write=os.write, close=os.close):
        self._folder = folder
        self._open, self._write, self._close = opened, write, close
        self._dumps = json.dumps
        self._counts = {}
        self._owner = os.getpid()
        self._fetched = {}
        self._fetcher = os.getpid()

    def note(self, kind, target, outcome):
        """Log one effect of ``kind`` on ``target`` with its outcome (see ``skyline.trace.facts``)."""
        pid = os.getpid()
        if pid != self._owner:
            # A forked worker counts its own effects.
            self._owner, self._counts = pid, {}
        key = (kind, target, outcome)
        count = self._counts.get(key, 0) + 1
        if count == 1 and len(self._counts) >= _MOST_TARGETS:
            return
        self._counts[key] = count
        if count > _ALWAYS_LOGGED and count & (count - 1):
            return
        line = user_code.innermost_line() if count == 1 else None
        row = {"pid": pid, "kind": kind, "target": target, "outcome": outcome, "count": count}
        self._append(LOG_NAME, {**row, "line": line})

    def note_fetched(self, path, fetched):
        """Log that a downloader wrote this file, or (``fetched`` False) that other code wrote it afterwards."""
        pid = os.getpid()
        if pid != self._fetcher:
            self._fetcher, self._fetched = pid, {}
        if self._fetched.get(path) != fetched:
            self._fetched[path] = fetched
            self._append(FETCHED_NAME, {"path": path, "fetched": fetched})

    def _append(self, name, row):
        text = self._dumps(row) + "\n"
        try:
            path = os.path.join(self._folder, name)
            # A script can replace the file by a pipe, which would block an open without O_NONBLOCK.
            descriptor = self._open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o600)
            try:
                self._write(descriptor, text.encode("utf-8", "replace"))
            finally:
                self._close(descriptor)
        except OSError:
            pass  # no descriptor or disk space left: the script must go on
