"""What the script tried to do to the world, kept in a file that outlives any crash of the script."""

from __future__ import annotations

import json
import os

from .. import user_code

LOG_NAME = "effects.jsonl"
_ALWAYS_LOGGED = 4
_MOST_TARGETS = 2000


class EffectLog:
    """Appends one line of JSON per effect to a file in the scratch folder.

    Forked workers append to the same file, each under its own process id. An effect that repeats is written
    the first few times and then at every doubling of its count, so that a script that logs each iteration
    costs next to nothing; the count is therefore a lower bound within a factor of two.
    """

    def __init__(self, folder, opened=os.open, write=os.write, close=os.close):
        self._path = os.path.join(folder, LOG_NAME)
        self._open, self._write, self._close = opened, write, close
        self._dumps = json.dumps
        self._counts = {}
        self._owner = os.getpid()

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
        text = self._dumps({**row, "line": line}) + "\n"
        try:
            descriptor = self._open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                self._write(descriptor, text.encode("utf-8", "replace"))
            finally:
                self._close(descriptor)
        except OSError:
            pass  # no descriptor or no room left: the script's own business goes on
