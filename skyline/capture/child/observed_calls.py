"""Calls of the user's code and of modules, counted while iterations are recorded."""

from __future__ import annotations

import os

READS = ("item", "tolist", "cpu", "numpy", "print", "float", "int", "bool", "format", "read")
"""Reported names of calls that read the values of a tensor."""

_MOST = 500
"""Maximum number of distinct calls that are reported; a script has a few dozen."""

CHECKPOINT_FILE = "torch/utils/checkpoint.py"


class ObservedCall:
    """One call that a what-if may change. ``line`` is the number of a line in the user's code.

    ``name`` becomes empty if the call turns out to be irrelevant.
    """

    __slots__ = ("line", "name", "options")

    def __init__(self, name, line):
        self.name = name
        self.line = line
        self.options = {}


class ModuleCalls:
    """Number of calls of a module in forward passes; ``lines`` maps the number of a pass to the calling line."""

    __slots__ = ("calls", "checkpointed", "lines")

    def __init__(self):
        self.calls = 0
        self.checkpointed = False
        self.lines = {}


class ObservedCalls:
    """The calls of ``iterations`` whole iterations; ``lines`` are the rows of the table that numbers refer to.

    ``kept`` are the bytes that forward passes keep for the backward pass, by module path. ``complete`` is True if every
    call of a module was seen: calls within compiled code are not. ``trained`` are the numbers of the forward passes
    that have a backward pass.
    """

    def __init__(self):
        self.calls = []
        self.modules = {}
        self.kept = {}
        self.lines = []
        self.iterations = 1
        self.complete = True
        self.trained = frozenset()

    def add(self, name, line, **options):
        """Add a call, and return its object."""
        call = ObservedCall(name, line)
        call.options.update(options)
        self.calls.append(call)
        return call

    def module_called(self, address, number, line, checkpointed):
        """Count a call of a module in the forward pass ``number``; ``line`` is -1 if a library called it."""
        seen = self.modules.get(address)
        if seen is None:
            seen = self.modules[address] = ModuleCalls()
        seen.calls += 1
        seen.checkpointed = seen.checkpointed or checkpointed
        if line >= 0:
            seen.lines.setdefault(number, line)

    def call_line(self, address):
        """The line that calls a module, preferably in a training pass; None if only libraries call it."""
        seen = self.modules.get(address)
        if seen is None or not seen.lines:
            return None
        first = min(seen.lines, key=lambda number: (number not in self.trained, number))
        return self.line(seen.lines[first])

    def calls_per_iteration(self, address):
        """Number of calls of a module in an iteration; 1 if it could not be seen."""
        if address in self.modules:
            return self.modules[address].calls / self.iterations
        return 0.0 if self.complete else 1.0

    def line(self, number):
        """A line by its number; None if there is none."""
        return self.lines[number] if number >= 0 else None

    def _mark_shared(self):
        """Mark evaluation calls whose line or function also calls modules in training passes."""
        trained = {
            line for seen in self.modules.values() for one, line in seen.lines.items() if one in self.trained
        }
        functions = {(self.lines[one]["file"], self.lines[one]["function"]) for one in trained}
        for call in self.calls:
            if call.name == "eval forward" and call.line >= 0:
                here = self.lines[call.line]
                if call.line in trained:
                    call.options["trained_here"] = "line"
                elif (here["file"], here["function"]) in functions:
                    call.options["trained_here"] = "function"

    def rows(self):
        """The calls as rows of ``skyline.trace.CallFact``, with equal calls counted together."""
        self._mark_shared()
        counts = {}
        for call in self.calls:
            if call.name:
                key = (call.name, call.line, tuple(sorted(call.options.items(), key=str)))
                counts[key] = counts.get(key, 0) + 1
        return [
            {
                "name": name,
                "per_iteration": count / self.iterations,
                "line": self.line(line),
                "options": dict(options),
            }
            for (name, line, options), count in list(counts.items())[:_MOST]
        ]


def runs_under_checkpoint(frame):
    """True if ``torch.utils.checkpoint`` is among the callers of a frame."""
    while frame is not None:
        if frame.f_code.co_filename.replace(os.sep, "/").endswith(CHECKPOINT_FILE):
            return True
        frame = frame.f_back
    return False
