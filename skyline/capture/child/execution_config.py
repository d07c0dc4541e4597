"""In which manner the script computes for a while: on how many threads, and whether under autocast."""

from __future__ import annotations

import torch

_UNDER_AUTOCAST = (None, "closure")
"""The parts of an iteration that a script runs under autocast: all but loading, backward passes and updates."""


class ExecutionConfig:
    """What ``change`` asked for last, until it is asked for something else."""

    def __init__(self):
        self._number_format = ""
        self._autocast = None

    def change(self, threads, number_format):
        """Compute on so many threads from here on, and under autocast in that format; none of it if empty."""
        self.follow("boundary")
        torch.set_num_threads(threads)
        self._number_format = number_format
        self.follow(None)

    def follow(self, part):
        """``part`` of the iteration is under way now, None for what lies between the parts that are told apart."""
        wanted = bool(self._number_format) and part in _UNDER_AUTOCAST
        if wanted == (self._autocast is not None):
            return
        if wanted:
            self._autocast = torch.autocast("cpu", dtype=getattr(torch, self._number_format))
            self._autocast.__enter__()
        else:
            # Forgets the weights that were cast, too: an update is to come.
            autocast, self._autocast = self._autocast, None
            autocast.__exit__(None, None, None)
