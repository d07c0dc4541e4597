"""What the script tried to do to the world, kept in a file that outlives any crash of the script."""

from __future__ import annotations

import json
import os

from .. import user_code

LOG_NAME = "effects.jsonl"
FETCHED_NAME = "fetched.jsonl"
_ALWAYS_LOGGED = 4
_MOST_TARGETS = 2000


class EffectLog:
    """Appends one line of JSON per effect to a file in the scratch folder.

    Forked workers append to the same file, each under its own process id. An effect that repeats is written
    the first few times and then at every doubling of its count, so that a script that logs each iteration
    costs next to nothing; the count is therefore a lower bound within a factor of two.
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
        """One effect of ``kind`` on ``target``, and what became of it (see ``skyline.trace.side_effect``)."""
        pid = os.getpid()
        if pid != self._owner:
            # A forked worker counts its own.
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
        """A downloader wrote this file, or (``fetched`` False) something else did after it."""
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
            # A script can put a pipe in its place, which would hold up whoever opens it.
            descriptor = self._open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o600)
            try:
                self._write(descriptor, text.encode("utf-8", "replace"))
            finally:
                self._close(descriptor)
        except OSError:
            pass  # no descriptor or no room left: the script's own business goes on
