"""The script's calls of ``torch.save``: their time, written bytes, and lines."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections import deque

import torch

from . import user_code

_clock = time.perf_counter
_MOST = 10_000
"""Maximum number of stored calls, for runs that never fetch them."""


class Saves:
    """Notes each call of ``torch.save``; ``iteration()`` is the number of iterations so far."""

    def __init__(self, iteration):
        self._iteration = iteration
        self._rows = deque(maxlen=_MOST)

    def install(self):
        """Start to note calls."""
        torch.save = torch.serialization.save = self._timed(torch.save)

    def taken(self):
        """The calls since the last call of this, as rows of ``skyline.trace.ObservedSave``."""
        rows = list(self._rows)
        self._rows.clear()
        return rows

    def _timed(self, save):
        @functools.wraps(save)
        def timed(obj, f, *args, **kwargs):
            began = _clock()
            result = save(obj, f, *args, **kwargs)
            seconds = _clock() - began
            self._rows.append(
                {
                    "iteration": self._iteration(),
                    "seconds": seconds,
                    "size_bytes": _size(f),
                    "line": user_code.innermost_line(),
                }
            )
            return result

        return timed


def _size(file):
    """Size of a file in bytes by its path, or the position in an open file; 0 if unknown."""
    with contextlib.suppress(Exception):
        return os.path.getsize(file) if isinstance(file, (str, os.PathLike)) else int(file.tell())
    return 0
