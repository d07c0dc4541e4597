"""The script's calls of ``torch.save``: their time, the bytes that they wrote, and their lines."""

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
"""Limit of kept calls, for runs that never ask for them."""


class Saves:
    """``iteration`` gives the number of iterations so far."""

    def __init__(self, iteration):
        self._iteration = iteration
        self._rows = deque(maxlen=_MOST)

    def install(self):
        """From now on."""
        torch.save = torch.serialization.save = self._timed(torch.save)

    def taken(self):
        """The calls since the last time, as rows of ``skyline.trace.ObservedSave``."""
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
    """Bytes of a file by its path, or up to where it was written; 0 if unknown."""
    with contextlib.suppress(Exception):
        return os.path.getsize(file) if isinstance(file, (str, os.PathLike)) else int(file.tell())
    return 0
