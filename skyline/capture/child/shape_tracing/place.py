"""On whose behalf an operator runs: the line, the module and the phase, also for backward work."""

from __future__ import annotations

import os
import sys

import torch

from .. import user_code

_ACCUMULATES = 1 << 62
"""Nodes that add up a parameter's gradient have a number beyond any that is counted."""


class Attribution:
    """The lines that are responsible for one operator.

    ``call_lines`` holds the line of every frame that may turn out to be the one with the training loop.
    """

    __slots__ = ("call_lines", "line", "module", "phase", "root_call")

    def __init__(self, line, call_lines, module, phase, root_call):
        self.line = line
        self.call_lines = call_lines
        self.module = module
        self.phase = phase
        self.root_call = root_call

    def on(self, line):
        """The same on another line."""
        return Attribution(line, self.call_lines, self.module, self.phase, self.root_call)


class Attributor:
    """Tells the place of the operator that runs now."""

    def __init__(self, observer, modules):
        self._observer = observer
        self._modules = modules
        self._lines = {}
        self._module_names = {}
        self._loops = frozenset()
        self._forward = {}
        self._paths = {}

    def follow(self, frames):
        """From here on, note the lines on which these frames of the person's stand."""
        self._loops = frozenset(map(id, frames))

    def current(self):
        """The place of the operator that runs now."""
        line, call_lines = self._stand(sys._getframe(2))
        part = self._observer.current_part()
        if part == "backward":
            return self._backward(line, call_lines)
        if part in ("data", "optimizer"):
            return Attribution(line, call_lines, -1, part, 0)
        module = self._modules.innermost()
        phase = "other" if module is None else "forward"
        return Attribution(line, call_lines, self._module(module), phase, self._modules.root_calls)

    def made(self, record):
        """The operator of this record made the newest node of the backward graph, unless an earlier one did."""
        self._forward.setdefault(torch.autograd._get_sequence_nr() - 1, record)

    def forget(self):
        """Records of earlier iterations are no cause any more."""
        self._forward.clear()

    def lines(self):
        """The table of lines, in the order of their index."""
        return [{"file": file, "line": line, "function": name} for file, line, name in self._lines]

    def line(self, index):
        """One row of the table of lines."""
        return self.lines()[index]

    def modules(self):
        """The table of module paths, in the order of their index."""
        return list(self._module_names)

    def _backward(self, line, call_lines):
        node = torch._C._current_autograd_node()
        if node is None:
            return Attribution(line, call_lines, -1, "backward", 0)
        number = node._sequence_nr()
        cause = self._forward.get(number)
        if cause is not None:
            cause["grad"] = True
            return Attribution(cause["line"], call_lines, cause["module"], "backward", 0)
        module = None
        if number > _ACCUMULATES:
            module = self._modules.owner(getattr(node, "variable", None))
        return Attribution(line, call_lines, self._module(module), "backward", 0)

    def _stand(self, frame):
        line = -1
        call_lines = ()
        loops = self._loops
        while frame is not None:
            if user_code.is_user_file(frame.f_code.co_filename):
                if line < 0:
                    line = self.number(frame)
                if id(frame) in loops:
                    call_lines = (*call_lines, (id(frame), self.number(frame)))
            frame = frame.f_back
        return line, call_lines

    def number(self, frame):
        """The index of the line on which a frame of the person's stands."""
        return self.number_of(frame.f_code, user_code.line_number(frame))

    def number_of(self, code, line):
        """The index of a line of the user's code."""
        key = (self._real(code.co_filename), line, user_code.qualified_name(code))
        return self._lines.setdefault(key, len(self._lines))

    def _real(self, path):
        if path not in self._paths:
            self._paths[path] = os.path.realpath(path)
        return self._paths[path]

    def _module(self, module):
        if module is None:
            return -1
        name = self._modules.path(module)
        return self._module_names.setdefault(name, len(self._module_names))
