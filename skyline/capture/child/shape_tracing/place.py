"""Attributes operators to a line, a module and a phase, also in backward passes."""

from __future__ import annotations

import os
import sys

import torch

from .. import user_code

_ACCUMULATES = 1 << 62
"""Nodes that accumulate a parameter's gradient have a higher sequence number than any counted one."""


class Attribution:
    """The line, module and phase to which an operator belongs.

    ``call_lines`` has the line of every frame that may turn out to contain the training loop.
    """

    __slots__ = ("call_lines", "line", "module", "phase", "root_call")

    def __init__(self, line, call_lines, module, phase, root_call):
        self.line = line
        self.call_lines = call_lines
        self.module = module
        self.phase = phase
        self.root_call = root_call

    def on(self, line):
        """A copy on another line."""
        return Attribution(line, self.call_lines, self.module, self.phase, self.root_call)


class Attributor:
    """Finds the attribution of the current operator."""

    def __init__(self, observer, modules):
        self._observer = observer
        self._modules = modules
        self._lines = {}
        self._module_names = {}
        self._loops = frozenset()
        self._forward = {}
        self._paths = {}

    def follow(self, frames):
        """Note the current lines of these frames of user code from now on."""
        self._loops = frozenset(map(id, frames))

    def current(self):
        """The attribution of the current operator."""
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
        """Note that the operator of this record created the newest backward node, unless an earlier one did."""
        self._forward.setdefault(torch.autograd._get_sequence_nr() - 1, record)

    def forget(self):
        """Drop the records of earlier iterations, which can no longer cause backward work."""
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
        """The index of the current line of a frame of user code."""
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
