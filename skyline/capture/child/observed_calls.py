"""Calls of the person's code and of modules, counted while iterations are recorded."""

from __future__ import annotations

import os

READS = ("item", "tolist", "cpu", "numpy", "print", "float", "int", "bool", "format", "read")
"""Calls that need the numbers of a tensor, by their reported names."""

_MOST = 500
"""Limit of reported different calls; a script has a few dozen."""

CHECKPOINT_FILE = "torch/utils/checkpoint.py"


class ObservedCall:
    """One call of something that a what-if may be about. ``line`` is the number of a line of the person's.

    ``name`` becomes empty where the call turns out not to be worth telling.
    """

    __slots__ = ("line", "name", "options")

    def __init__(self, name, line):
        self.name = name
        self.line = line
        self.options = {}


class ModuleCalls:
    """Number of calls of a module in forward passes; ``lines`` are those of its calls, by the number of the pass."""

    __slots__ = ("calls", "checkpointed", "lines")

    def __init__(self):
        self.calls = 0
        self.checkpointed = False
        self.lines = {}


class ObservedCalls:
    """The calls of ``iterations`` whole iterations; ``lines`` are the rows of the table that numbers refer to.

    ``kept`` are the bytes that forward passes keep for the backward pass, by the path of a module. ``complete`` is
    whether every call of a module was seen: compiled code makes calls that are not. ``trained`` are the numbers of
    the forward passes into which a gradient came back.
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
        """A call; gives what stands for it."""
        call = ObservedCall(name, line)
        call.options.update(options)
        self.calls.append(call)
        return call

    def module_called(self, address, number, line, checkpointed):
        """A module was called in the forward pass of this number; ``line`` is -1 where a library called it."""
        seen = self.modules.get(address)
        if seen is None:
            seen = self.modules[address] = ModuleCalls()
        seen.calls += 1
        seen.checkpointed = seen.checkpointed or checkpointed
        if line >= 0:
            seen.lines.setdefault(number, line)

    def call_line(self, address):
        """The line that calls a module, one that trains it before any other; None where only a library does."""
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
        """A line by its number, None where there is none."""
        return self.lines[number] if number >= 0 else None

    def _mark_shared(self):
        """Mark evaluating calls whose line, or function, calls modules in passes that train, too."""
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
        """The calls, equal ones counted together, as rows of ``skyline.trace.CallFact``."""
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
