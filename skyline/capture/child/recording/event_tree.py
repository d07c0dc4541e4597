"""Walks the profiler's event tree, and attributes every microsecond of the main thread to a line of user code."""

from __future__ import annotations

import sys

from ..devices.backend import CPU
from ..observed_calls import CHECKPOINT_FILE
from .backward_thread import BACKWARD_PREFIX, nest_backward_thread
from .calls_seen import CallsSeen
from .context import CALL_US, FULL_OPERATOR_US, OPERATOR_US, Context, ForwardSource, Step
from .line_samples import WORTH_SPLITTING_NS
from .node import ALLOCATION, CALL, CALL_IN_C, OPERATOR, RUNTIME, SPAN, nodes_of
from .operator_lines import is_mark
from .places import PlaceTable
from .rows import clipped, coalesced, iterations_between, kept_bytes, settle_phases
from .shapes import Shapes, multiplies, operator_flops
from .tree_nodes import has_python_call, is_closure, reads_clock, spans_named, start_ns, text_of

_DEEPEST = 20_000

_WORTH_NAMING_NS = 10_000
"""Shorter calls of C functions are very frequent, and count as part of the line's own Python."""


class EventTree:
    """The tree of Python calls, operators, runtime calls and allocations of one recording.

    ``boundary`` is the name of the marker between iterations; times are microseconds from the end of the first
    marker. ``operator_lines`` are learned from a ``full`` recording (with shapes, allocations and the line marker),
    and looked up in others. Work that ended before ``after_ns`` is left out.
    """

    def __init__(self, roots, boundary, samples=None, operator_lines=None, full=True, after_ns=0):
        self.boundary = boundary
        self._samples = samples
        self._operator_lines = operator_lines
        self._full = full
        self._calls = CallsSeen() if full else None
        self._operator_cost_us = FULL_OPERATOR_US if full else OPERATOR_US
        self._roots = nodes_of(roots, after_ns)
        marks = sorted(spans_named(self._roots, boundary), key=start_ns)
        self._main_thread = marks[0].start_tid
        self._origin_ns = marks[0].end_time_ns
        self.iterations = iterations_between(marks, self.microseconds)
        self._places = None
        self._shapes = Shapes()
        self._records = []
        self._allocations = []
        self._causes, self._multiplied = {}, {}
        self._last_cause = self._loop = self._open = None
        self._root_calls = 0
        self._device_kind, self._lane = "cpu", "cpu:main"
        self._nested = {}

    def microseconds(self, time_ns):
        """A time of the profiler's clock in µs from the start of the recording."""
        return (time_ns - self._origin_ns) / 1e3

    def iteration_at(self, time_us):
        """The index of the iteration at this time, or None."""
        within = (mark for mark in self.iterations if mark["start_us"] <= time_us < mark["end_us"])
        return next((mark["index"] for mark in within), None)

    def trace(self, loop, module_names, device_kind):
        """The recording as a dictionary with the fields of ``skyline.trace.Trace``.

        ``module_names`` are paths of modules by address. Allocations are those of the last iteration only, because
        earlier iterations free blocks that the recording never saw, so that their sums are wrong.
        """
        self._loop = loop
        self._places = PlaceTable(module_names)
        self._device_kind = device_kind
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _DEEPEST))
        try:
            main, others = [], []
            for root in sorted(self._roots, key=start_ns):
                (main if root.start_tid == self._main_thread else others).append(root)
            self._nested, others = nest_backward_thread(main, others)
            for node in main:
                self._visit(node, Context())
            for node in others:
                self._visit_thread(node)
        finally:
            sys.setrecursionlimit(limit)
        lines = self._places.lines
        records = settle_phases(self._records, lines)
        last = self.iterations[-1]
        return {
            "iterations": self.iterations,
            "lines": lines,
            "modules": self._places.modules,
            "functions": self._places.functions,
            "shapes": self._shapes.rows,
            "records": coalesced(clipped(records, self.iterations)),
            "allocations": [
                allocation
                for allocation in sorted(self._allocations, key=lambda row: row["time_us"])
                if last["start_us"] <= allocation["time_us"] <= last["end_us"]
            ],
        }

    def multiplied(self, correlation):
        """The shape row of the product or attention that a call launched; -1 for other work and before ``trace``."""
        return self._multiplied.get(correlation, -1)

    def observed_calls(self, evaluated):
        """The calls seen, after ``trace`` of a full recording (see ``CallsSeen.finish``)."""
        trained = {record["root_call"] for record in self._records if record["grad"]}
        seen = self._calls.finish(trained, evaluated, self._places, len(self.iterations))
        last = [row for row in self._allocations if row["time_us"] >= self.iterations[-1]["start_us"]]
        seen.kept = kept_bytes(last, self._records, self._places.modules)
        return seen

    # Walking.

    def _visit(self, node, context):
        kind = node.kind
        if kind == ALLOCATION:
            self._allocated(node, context)
        elif kind == RUNTIME:
            self._runtime(node, context)
        elif kind in (CALL, CALL_IN_C):
            self._visit_call(node, context)
        elif kind == OPERATOR:
            self._visit_operator(node, context)
        else:
            # A span may end after its parent, so that it only passes its context on.
            if context.step is not None:
                context.step.see_span(node.name)
            for child in node.children:
                self._visit(child, context)

    def _visit_call(self, node, outer):
        fields, is_python = node.extra_fields, node.kind == CALL
        context = outer.copy()
        context.in_loop_frame = False
        line = self._places.line(fields.caller)
        if line is not None:
            context.line, context.function = line, None
            if outer.in_loop_frame:
                context.call_line = line
        own_line = None
        if is_python:
            own_line = self._places.line(fields.callsite)
            self._enter_function(fields, context, is_own=own_line is not None)
        elif context.function is None and node.end_time_ns - node.start_time_ns >= _WORTH_NAMING_NS:
            context.function = self._places.built_in(node.name)
        if own_line is not None:
            context.asked = None
        elif context.asked is None and self._calls is not None:
            context.asked = self._calls.entered(node, context)
        self._visit_children(node, context, own_line)

    def _enter_function(self, fields, context, is_own):
        """Update the context: phases and modules begin at functions of PyTorch with known names."""
        callsite = fields.callsite
        file, function = callsite.file_name.replace("\\", "/"), text_of(callsite, "function_name")
        if is_own:
            context.function = None
        elif context.function is None and fields.module is None:
            context.function = self._places.function(callsite)
        if fields.module is not None:
            context.module, context.function = self._places.module(fields.module), None
            if context.phase in ("other", "optimizer"):
                self._root_calls += 1
                context.phase, context.root_call = "forward", self._root_calls
                if self._calls is not None:
                    self._calls.root_called(fields, context)
            if self._calls is not None:
                self._calls.module_called(fields, context)
        elif file.endswith(CHECKPOINT_FILE):
            context.checkpointed = True
        elif file.endswith("torch/utils/data/dataloader.py") and function == "__next__":
            context.phase, context.kind = "data", "data"
        elif file.endswith("torch/autograd/__init__.py") and function in ("backward", "grad"):
            context.phase = "backward"
        elif file.endswith("torch/optim/optimizer.py") and function == "zero_grad":
            context.phase = "optimizer"
        elif Step.begins_with(file, function):
            context.phase, context.step = "optimizer", Step()
        elif function == "_init_group" and context.step is not None:
            context.step.next_group()
        elif context.step is not None and is_closure(fields):
            context.phase, context.step = "other", None
        # Frames from before the recording appear with their line at its start.
        if self._loop is not None and callsite.line_number in (self._loop["first_line"], self._loop["line"]):
            context.in_loop_frame = self._places.user_path(callsite.file_name) == self._loop["file"]

    def _visit_children(self, node, context, own_line):
        """Visit the children in time order; the time between them is interpreter time.

        In a frame of user code, that time belongs to the line of the next call, whose arguments it prepares, and at
        the end to the line of the last call.
        """
        # Work before the first marker belongs to no line, and may be left out.
        cursor = max(node.start_time_ns, self._origin_ns)
        line = own_line
        frame = node.extra_fields.callsite if own_line is not None else None
        children = node.children
        if self._nested:
            children = [*children, *self._nested.get(node.id, ())]
        children = sorted(children, key=start_ns)
        plain, run, numbers, marked, told = context, None, {}, [], None
        for index, child in enumerate(children):
            kind = child.kind
            if kind == ALLOCATION:
                self._allocated(child, context)
                continue
            if own_line is not None:
                if kind in (CALL, CALL_IN_C):
                    caller = child.extra_fields.caller
                    line = self._line_in_frame(caller, numbers, line)
                elif kind == OPERATOR:
                    if told is None:
                        told = self._told_lines(frame, children)
                    line = told.get(index, line)
            if kind == CALL_IN_C and self._is_plain(child, context):
                if own_line is not None and (plain is context or plain.line != line):
                    plain = context.on_line(line)
                end_ns = max(cursor, child.end_time_ns)
                calls = 0 if reads_clock(child) else 2
                is_long = end_ns - cursor >= WORTH_SPLITTING_NS
                if run and run[2] is plain and run[3] is None and not is_long:
                    # They are merged, because there may be a million of them.
                    run[1], run[4] = end_ns, run[4] + calls
                else:
                    self._python_run(run)
                    run = [cursor, end_ns, plain, frame if is_long else None, calls]
                cursor = end_ns
                continue
            self._python_run(run)
            run = None
            here = context if own_line is None else context.on_line(line)
            if kind == SPAN:
                self._visit(child, here)
                continue
            if own_line is not None and kind == CALL and is_mark(child.extra_fields):
                marked.append((caller.line_number, child))
            if child.start_time_ns > cursor:
                self._python(cursor, child.start_time_ns, here, frame, int(not reads_clock(child)))
            below = here
            if own_line is not None:
                below = here.copy()
                below.in_loop_frame = context.in_loop_frame
            self._visit(child, below)
            cursor = max(cursor, child.end_time_ns)
        self._python_run(run)
        if node.end_time_ns > cursor:
            rest = context if line is None else context.on_line(line)
            self._python(cursor, node.end_time_ns, rest, frame, int(not reads_clock(node)))
        if marked and self._operator_lines is not None:
            self._operator_lines.learn_call(frame, marked, self._iteration_of)

    def _line_in_frame(self, caller, numbers, line):
        """The number of the calling line in a frame of user code; ``numbers`` caches the lines of this frame."""
        at = caller.line_number
        if at not in numbers:
            numbers[at] = self._places.line(caller)
        return line if numbers[at] is None else numbers[at]

    def _told_lines(self, frame, children):
        """The known lines of operators among the children of a frame, by their index among the children."""
        if self._full or self._operator_lines is None:
            return {}
        return self._operator_lines.tell_call(frame, children, self._iteration_of, self._places)

    def _is_own(self, path):
        return self._places.user_path(path) is not None

    def _iteration_of(self, node):
        return self.iteration_at(self.microseconds(node.start_time_ns))

    def _is_plain(self, call, context):
        """True if a call is part of its line's own Python."""
        return (
            not call.children
            and (context.function is not None or call.end_time_ns - call.start_time_ns < _WORTH_NAMING_NS)
            and not (self._nested and call.id in self._nested)
        )

    # Operators.

    def _visit_operator(self, node, context):
        name = node.name
        if name.startswith(BACKWARD_PREFIX):
            name = name[len(BACKWARD_PREFIX) :]
            context = self._backward_context(node, context)
        if self._calls is not None:
            self._calls.operator(name, node, context)
        made = len(self._records)
        if has_python_call(node, self._is_own):  # hooks, autograd functions, kernels
            self._visit_between(node, name, context)
        else:
            self._visit_whole(node, name, context)
        if context.phase != "backward" and len(self._records) > made:
            self._own_sequence_numbers(node, ForwardSource(context, self._records[made:]))

    def _backward_context(self, node, context):
        """The context of backward work: that of the forward operator with the same sequence number.

        With hooks on a tensor only the inner function has the number. The accumulation of a gradient has none: it
        belongs to the work just before, which computed the gradient.
        """
        context = context.copy()
        context.phase = "backward"
        numbers = [
            one.extra_fields.sequence_number for one in (node, *node.children) if one.kind in (OPERATOR, SPAN)
        ]
        cause = next((self._causes[n] for n in numbers if n >= 0 and n in self._causes), None)
        if cause is not None:
            cause.got_gradient()
            if self._full and cause.records:
                self._shapes.count_convolution(node, cause.records[-1])
        elif "AccumulateGrad" in node.name:
            cause = self._last_cause
        self._last_cause = cause
        if cause is not None:
            cause.onto(context)
        return context

    def _visit_between(self, node, name, context):
        """Visit an operator that calls user code: that code has its own lines, the rest belongs to the operator."""
        cursor = node.start_time_ns
        for child in sorted(node.children, key=start_ns):
            if child.kind == ALLOCATION:
                self._allocated(child, context)
                continue
            self._operator(name, cursor, child.start_time_ns, context)
            self._visit(child, context)
            cursor = max(cursor, child.end_time_ns)
        self._operator(name, cursor, node.end_time_ns, context)

    def _visit_whole(self, node, name, context):
        """Record an operator with everything that it calls, interrupted only by calls of the device's runtime."""
        runtime_calls, inner = self._absorb(node, context)
        cursor = node.start_time_ns
        record = None
        for call in runtime_calls:
            record = self._operator(name, cursor, call.start_time_ns, context) or record
            self._runtime(call, context)
            cursor = max(cursor, call.end_time_ns)
        record = self._operator(name, cursor, node.end_time_ns, context) or record
        if record is not None:
            record["recording_us"] = (inner + 1) * self._operator_cost_us
            record["whole"] = True
            if self._full:
                record["flops"] = operator_flops(node)
                record["shape"] = self._shapes.number_of_shown(node)

    def _absorb(self, node, context):
        """Note the allocations below an operator; returns its runtime calls, and the number of operators it calls."""
        runtime_calls, inner = [], 0
        launches = self._full and self._device_kind != CPU
        waiting = [(child, node) for child in node.children]
        while waiting:
            child, outer = waiting.pop()
            if child.kind == ALLOCATION:
                self._allocated(child, context)
            elif child.kind == RUNTIME:
                runtime_calls.append(child)
                if launches and multiplies(outer):
                    self._multiplied[child.correlation_id] = self._shapes.number(outer)
            else:
                inner += 1
                within = outer if launches and multiplies(outer) and not multiplies(child) else child
                waiting.extend((each, within) for each in child.children)
        runtime_calls.sort(key=start_ns)
        return runtime_calls, inner

    def _own_sequence_numbers(self, node, cause):
        """Note the forward work of each sequence number: backward nodes have the number of their forward operator.

        Operators without a backward node show the next free number, so that the last operator with a number before
        the backward pass is the one that created the node.
        """
        waiting = [node]
        while waiting:
            here = waiting.pop()
            if here.kind in (OPERATOR, SPAN) and (number := here.extra_fields.sequence_number) >= 0:
                self._causes[number] = cause
            waiting.extend(here.children)

    def _visit_thread(self, root):
        """Visit another thread (of autograd or a communication library): its outermost operators and runtime calls."""
        self._lane = f"cpu:{root.start_tid}"
        waiting = [(root, Context())]
        while waiting:
            node, context = waiting.pop()
            if node.kind in (OPERATOR, ALLOCATION, RUNTIME):
                self._visit(node, context)
                continue
            line = self._places.line(node.extra_fields.caller) if node.kind in (CALL, CALL_IN_C) else None
            below = context if line is None else context.on_line(line)
            waiting.extend((child, below) for child in reversed(node.children))
        self._lane = "cpu:main"

    # Rows.

    def _python_run(self, run):
        if run:
            self._python(*run)

    def _python(self, start_ns, end_ns, context, frame=None, calls=1):
        """Record interpreter time; in a ``frame`` of user code, samples divide long stretches without calls by line."""
        if frame is not None and self._samples is not None:
            path = self._places.user_path(frame.file_name)
            for start, end, number in self._samples.stretches(
                start_ns, end_ns, self._places.user_path, path, frame.function_name
            ):
                here = context.copy()
                here.line = self._places.numbered(path, number, frame.function_name)
                if context.in_loop_frame:
                    here.call_line = here.line
                self._python(start, end, here)
                start_ns = end
        cost_us = calls * CALL_US
        if self._continues(start_ns, end_ns, context):
            # A loop of small calls has millions of stretches, which are merged into one row here.
            last = self._records[-1]
            last["duration_us"] = self.microseconds(end_ns) - last["start_us"]
            last["recording_us"] += cost_us
            return
        record = self._record("python", start_ns, end_ns, context, context.kind or "python")
        if record is not None:
            record["recording_us"] = cost_us
            self._open = (end_ns, context.line, context.call_line, context.function)

    def _continues(self, start_ns, end_ns, context):
        """True if interpreter time continues the last record, in the same context."""
        if not self._records or end_ns <= start_ns:
            return False
        last = self._records[-1]
        same = (
            last["name"] == "python"
            and self._open == (start_ns, context.line, context.call_line, context.function)
            and last["module"] == context.module
            and last["phase"] == context.phase
            and last["root_call"] == context.root_call
            and last["lane"] == self._lane
        )
        if same:
            self._open = (end_ns, *self._open[1:])
        return same

    def _operator(self, name, start_ns, end_ns, context):
        return self._record(name, start_ns, end_ns, context, context.kind or "operator")

    def _runtime(self, call, context):
        record = self._record(call.name, call.start_time_ns, call.end_time_ns, context, "runtime")
        if record is not None:
            record["correlation"] = call.correlation_id

    def _record(self, name, start_ns, end_ns, context, kind):
        if end_ns <= start_ns:
            return None
        start_us, duration_us = self.microseconds(start_ns), (end_ns - start_ns) / 1e3
        module = context.module
        if module < 0 and context.step is not None and context.step.label is not None:
            module = self._places.named_module(context.step.label)
        record = {
            "name": name,
            "kind": kind,
            "phase": context.phase,
            "lane": self._lane,
            "start_us": start_us,
            "duration_us": duration_us,
            "line": context.line,
            "call_line": context.call_line,
            "module": module,
            "function": -1 if context.function is None else context.function,
            "correlation": 0,
            "shape": -1,
            "flops": 0,
            "recording_us": 0.0,
            "root_call": context.root_call,
            "grad": False,
            "whole": False,
        }
        self._records.append(record)
        return record

    def _allocated(self, node, context):
        fields = node.extra_fields
        if fields.device.type == self._device_kind:
            self._allocations.append(
                {
                    "time_us": self.microseconds(node.start_time_ns),
                    "size_bytes": fields.alloc_size,
                    "address": fields.ptr or 0,
                    "phase": context.phase,
                    "line": context.line,
                    "module": context.module,
                }
            )
