"""Samples the line of the script's thread every few milliseconds, for Python code that makes no calls."""

from __future__ import annotations

import sys
import threading
import time
from bisect import bisect_left

from .. import user_code

_EVERY_S = 0.005
WORTH_SPLITTING_NS = 2_000_000
"""A shorter stretch without calls belongs to the line of the next call."""


class LineSamples:
    """Samples that show the lines of a loop without calls, since the profiler sees only calls.

    A thread takes them. Python switches to it at least every few milliseconds. Times are in ns of the system's clock,
    like the profiler's.
    """

    def __init__(self):
        self._rows = []
        self._over = threading.Event()
        self._thread = None
        self.told = False
        """True if samples have divided a stretch."""

    def start(self):
        """Watch the calling thread. May be called again after ``stop``."""
        self._over.clear()
        self._thread = threading.Thread(target=self._watch, args=(threading.get_ident(),), daemon=True)
        self._thread.start()

    def stop(self):
        """Stop watching; the samples are kept."""
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None

    def _watch(self, watched):
        while not self._over.wait(_EVERY_S):
            self._look(watched)

    def _look(self, watched):
        # The frame must not be stored, because it keeps its variables alive, tensors among them.
        frame = sys._current_frames().get(watched)
        if frame is not None:
            code = frame.f_code
            self._rows.append((time.time_ns(), code.co_filename, user_code.line_number(frame), code.co_name))

    def stretches(self, start_ns, end_ns, path_of, path, function):
        """``(start, end, line number)`` for the parts of a stretch without calls in a function of ``path``.

        ``path_of`` resolves file names. Empty if there is no sample of that function or if the stretch is short.
        """
        if end_ns - start_ns < WORTH_SPLITTING_NS:
            return []
        first = bisect_left(self._rows, (start_ns,))
        last = bisect_left(self._rows, (end_ns,))
        seen = [
            (moment, line)
            for moment, file, line, name in self._rows[first:last]
            if name == function and path_of(file) == path
        ]
        found = []
        cursor = start_ns
        for index, (moment, line) in enumerate(seen):
            following = seen[index + 1] if index + 1 < len(seen) else None
            end = end_ns if following is None else (moment + following[0]) // 2
            if found and found[-1][2] == line:
                found[-1] = (found[-1][0], end, line)
            else:
                found.append((cursor, end, line))
            cursor = end
        self.told = self.told or bool(found)
        return found
