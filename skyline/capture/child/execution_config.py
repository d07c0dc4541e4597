"""The execution config of the script: the number of threads, and the format of autocast."""

from __future__ import annotations

import torch

_UNDER_AUTOCAST = (None, "closure")
"""The parts of an iteration that a script runs under autocast: all but loading, backward passes and updates."""


class ExecutionConfig:
    """The config that ``change`` set last."""

    def __init__(self):
        self._number_format = ""
        self._autocast = None

    def change(self, threads, number_format):
        """Compute on so many threads from now on, and under autocast in that format unless it is empty."""
        self.follow("boundary")
        torch.set_num_threads(threads)
        self._number_format = number_format
        self.follow(None)

    def follow(self, part):
        """Enter ``part`` of the iteration; None is the rest, outside the named parts."""
        wanted = bool(self._number_format) and part in _UNDER_AUTOCAST
        if wanted == (self._autocast is not None):
            return
        if wanted:
            self._autocast = torch.autocast("cpu", dtype=getattr(torch, self._number_format))
            self._autocast.__enter__()
        else:
            # Leaving it also drops the cast weights, which the next update changes.
            autocast, self._autocast = self._autocast, None
            autocast.__exit__(None, None, None)
