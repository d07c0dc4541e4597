"""The switch of models between training and evaluation, and its listeners."""

from __future__ import annotations

import functools

import torch


class ModeSwitch:
    """Replaces ``torch.nn.Module.train``, which ``eval`` calls too, and calls the listeners after each switch.

    A module switches its submodules through the same method: only the outermost call counts.
    """

    def __init__(self):
        self._listeners = ()
        self._inside = False

    def install(self):
        """Install the hook; call it before the script runs."""
        train = torch.nn.Module.train

        @functools.wraps(train)
        def switched(module, mode=True):
            if self._inside or not self._listeners:
                return train(module, mode)
            self._inside = True
            try:
                result = train(module, mode)
            finally:
                self._inside = False
            for heard in self._listeners:
                heard(module, mode)
            return result

        torch.nn.Module.train = switched

    def listen(self, heard):
        """Call ``heard(module, mode)`` after each switch from now on."""
        self._listeners = (*self._listeners, heard)

    def leave(self, heard):
        """Stop calling ``heard``."""
        self._listeners = tuple(one for one in self._listeners if one != heard)
