"""Facts about a place in the event tree, from the calls around it."""

from __future__ import annotations

from ..observed_keras import FILE, SPAN, STEP


class Context:
    """The line, phase, module and library function to which work belongs.

    ``asked`` is the call of interest that the user's code made (see ``CallsSeen.entered``).
    """

    __slots__ = (
        "asked",
        "call_line",
        "checkpointed",
        "function",
        "in_loop_frame",
        "kind",
        "line",
        "module",
        "phase",
        "root_call",
        "step",
    )

    def __init__(self):
        self.line = self.call_line = self.module = -1
        self.phase = "other"
        self.kind = self.function = self.step = None
        self.root_call = 0
        self.in_loop_frame = self.checkpointed = False
        self.asked = None

    def copy(self):
        """A copy to change for the calls below."""
        other = Context.__new__(Context)
        other.line, other.call_line, other.module = self.line, self.call_line, self.module
        other.phase, other.kind, other.function = self.phase, self.kind, self.function
        other.step, other.root_call, other.asked = self.step, self.root_call, self.asked
        other.in_loop_frame, other.checkpointed = self.in_loop_frame, self.checkpointed
        return other

    def on_line(self, line):
        """A copy on another line of the frame."""
        other = self.copy()
        other.line = line
        if self.in_loop_frame:
            other.call_line = line
        return other


class ForwardSource:
    """The forward work that caused some backward work, with its records."""

    __slots__ = ("function", "line", "module", "records")

    def __init__(self, context, records):
        self.line = context.line
        self.module = context.module
        self.function = context.function
        self.records = records

    def got_gradient(self):
        """Note that a gradient reached this work: it is training, not evaluation."""
        for record in self.records:
            record["grad"] = True

    def onto(self, context):
        """Attribute the work in ``context`` to this forward work."""
        context.line, context.module, context.function = self.line, self.module, self.function


class Step:
    """One call of an optimizer's step. Optimizers begin each parameter group with a function of known name."""

    __slots__ = ("_group", "name")

    def __init__(self):
        self.name = None
        self._group = -1

    @staticmethod
    def begins_with(file, function):
        """True if this function wraps the step of an optimizer of PyTorch or Keras."""
        if function == STEP:
            return file.endswith(FILE)
        return function == "wrapper" and file.endswith("torch/optim/optimizer.py")

    def see_span(self, span):
        """Take the name from the span that optimizers open around a step."""
        if span.startswith(SPAN):
            self.name = span[len(SPAN) :].partition(".")[0]

    def next_group(self):
        """Attribute later calls to the next parameter group."""
        self._group += 1

    @property
    def label(self):
        """The name for the optimizer and its parameter group in the table of modules."""
        return (
            self.name if self._group < 0 or self.name is None else f"{self.name}.param_groups[{self._group}]"
        )


CALL_US = 0.1
"""Cost in µs of recording the start or the end of a Python call."""

OPERATOR_US = 0.6
"""Cost in µs of recording an operator."""

FULL_OPERATOR_US = 1.0
"""Cost in µs of recording an operator with its shapes and allocations."""
