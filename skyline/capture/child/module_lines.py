"""Finds the line of the user's code that created each module."""

from __future__ import annotations

import functools
import os
import sys
import weakref

import torch

from . import user_code


class ModuleLines:
    """Notes the line on which each ``nn.Module`` is constructed.

    Only a line that creates the object itself counts: modules created by a library, copies and unpickled modules have
    none. An ``__init__`` of the object's own class does not count either.
    """

    def __init__(self):
        self._places = {}

    def install(self):
        """Start to note the lines of new modules."""
        original = torch.nn.Module.__init__
        note = self._note

        @functools.wraps(original)
        def __init__(module, *args, **kwargs):
            original(module, *args, **kwargs)
            note(module, sys._getframe(1))

        torch.nn.Module.__init__ = __init__

    def line(self, module):
        """The line that created the module as ``{"file", "line", "function"}``, or None."""
        reference, code, number = self._places.get(id(module), (None, None, 0))
        # The address of a deleted module may be reused.
        if reference is None or reference() is not module or not user_code.is_user_file(code.co_filename):
            return None
        return {
            "file": os.path.realpath(code.co_filename),
            "line": number,
            "function": user_code.qualified_name(code),
        }

    def _note(self, module, frame):
        while frame is not None and frame.f_code.co_name == "__init__":
            code = frame.f_code
            if not code.co_argcount or frame.f_locals.get(code.co_varnames[0]) is not module:
                break
            frame = frame.f_back
        if frame is not None:
            self._places[id(module)] = weakref.ref(module), frame.f_code, user_code.line_number(frame)
