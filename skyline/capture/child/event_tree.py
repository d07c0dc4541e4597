"""Walks the profiler's event tree: every microsecond of the main thread goes to a line of the person's code."""

from __future__ import annotations

import itertools
import os
import sys

from . import user_code
from .phases import settle_phases

_BACKWARD_PREFIX = "autograd::engine::evaluate_function: "
_DEEPEST = 20_000


class Context:
    """What is known at a node of the tree from the calls around it."""

    __slots__ = ("call_line", "in_loop_frame", "kind", "line", "module", "phase", "root_call")

    def __init__(self):
        self.line = self.call_line = self.module = -1
        self.phase = "other"
        self.kind = None
        self.root_call = 0
        self.in_loop_frame = False

    def copy(self):
        """A context to change for the calls below."""
        other = Context.__new__(Context)
        for name in Context.__slots__:
            setattr(other, name, getattr(self, name))
        return other


class EventTree:
    """One recording's tree of Python calls, operators, runtime calls and allocations.

    ``boundary`` is the name of the marker that cuts iterations; times are microseconds from the end of the
    first marker.
    """

    def __init__(self, roots, boundary):
        self.boundary = boundary
        self._roots = roots
        marks = sorted(self._find_marks(roots), key=lambda node: node.start_time_ns)
        self._main_thread = marks[0].start_tid
        self._origin_ns = marks[0].end_time_ns
        self.iterations = [
            {
                "index": index,
                "start_us": self.microseconds(before.end_time_ns),
                "end_us": self.microseconds(after.start_time_ns),
            }
            for index, (before, after) in enumerate(itertools.pairwise(marks))
        ]
        self._lines = {}
        self._modules = {}
        self._files = {}
        self._records = []
        self._allocations = []
        self._seq_record = {}
        self._root_calls = 0
        self._device_kind = "cpu"
        self._loop = None
        self._names = {}

    def microseconds(self, time_ns):
        """A time of the profiler's clock in the recording's base."""
        return (time_ns - self._origin_ns) / 1e3

    def iteration_at(self, time_us):
        """The index of the iteration a moment lies in, or None."""
        for mark in self.iterations:
            if mark["start_us"] <= time_us < mark["end_us"]:
                return mark["index"]
        return None

    def trace(self, loop, module_names, device_kind):
        """The recording as a dictionary in the shape of ``skyline.trace.Trace``.

        Allocations are those of the last iteration only: frees of blocks from before the recording are not
        in it, so that earlier ones do not add up.
        """
        self._loop = loop
        self._names = module_names
        self._device_kind = device_kind
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _DEEPEST))
        try:
            for node in sorted(self._roots, key=lambda root: root.start_time_ns):
                if node.start_tid == self._main_thread:
                    self._visit(node, Context())
                else:
                    self._visit_thread(node)
        finally:
            sys.setrecursionlimit(limit)
        lines = [{"file": file, "line": line, "function": name} for file, line, name in self._lines]
        records = settle_phases(self._records, lines)
        last = self.iterations[-1]
        return {
            "iterations": self.iterations,
            "lines": lines,
            "modules": list(self._modules),
            "records": _coalesced(self._clipped(records)),
            "allocations": [
                allocation
                for allocation in sorted(self._allocations, key=lambda row: row["time_us"])
                if last["start_us"] <= allocation["time_us"] <= last["end_us"]
            ],
        }

    def _find_marks(self, nodes):
        # The markers are opened inside our own hook, some levels down: look everywhere, without recursion.
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if node.name == self.boundary:
                yield node
            waiting.extend(node.children)

    # Walking.

    def _visit(self, node, context):
        fields = node.extra_fields
        kind = type(fields).__name__
        if kind == "_ExtraFields_Allocation":
            self._allocated(node, fields, context)
        elif kind in ("_ExtraFields_PyCall", "_ExtraFields_PyCCall"):
            self._visit_call(node, fields, kind == "_ExtraFields_PyCall", context)
        elif kind == "_ExtraFields_TorchOp" and not str(fields.scope).endswith("USER_SCOPE"):
            self._visit_operator(node, fields, context)
        else:
            # A span that someone opened (record_function): its end may lie beyond its parent's, so it only
            # passes its context on.
            for child in node.children:
                self._visit(child, context)

    def _visit_call(self, node, fields, is_python, outer):
        context = outer.copy()
        context.in_loop_frame = False
        line = self._line(fields.caller)
        if line is not None:
            context.line = line
            if outer.in_loop_frame:
                context.call_line = line
        own_line = None
        if is_python:
            own_line = self._line(fields.callsite)
            self._enter_function(fields, context)
        self._visit_children(node, context, own_line)

    def _enter_function(self, fields, context):
        """Phases and modules begin at calls that PyTorch itself makes under known names."""
        callsite = fields.callsite
        file, function = callsite.file_name.replace("\\", "/"), callsite.function_name
        if fields.module is not None:
            context.module = self._module(fields.module)
            if context.phase in ("other", "optimizer"):
                self._root_calls += 1
                context.phase, context.root_call = "forward", self._root_calls
        elif file.endswith("torch/utils/data/dataloader.py") and function == "__next__":
            context.phase, context.kind = "data", "data"
        elif file.endswith("torch/autograd/__init__.py") and function == "backward":
            context.phase = "backward"
        elif file.endswith("torch/optim/optimizer.py") and function in ("wrapper", "zero_grad"):
            context.phase = "optimizer"
        # Frames that were there before the recording are shown with the line they stood on.
        if self._loop is not None and callsite.line_number in (self._loop["first_line"], self._loop["line"]):
            context.in_loop_frame = self._user_path(callsite.file_name) == self._loop["file"]

    def _visit_children(self, node, context, own_line):
        """The children in time order; what lies between them is interpreter time.

        In a frame of the person's, that time belongs to the line of the call that follows, whose arguments
        it prepares, and at the end to the line of the last call.
        """
        cursor = node.start_time_ns
        line = own_line
        for child in sorted(node.children, key=lambda item: item.start_time_ns):
            if type(child.extra_fields).__name__ == "_ExtraFields_Allocation":
                self._allocated(child, child.extra_fields, context)
                continue
            here = context
            if own_line is not None:
                caller = getattr(child.extra_fields, "caller", None)
                line = (self._line(caller) if caller is not None else None) or line
                here = context.copy()
                here.line = line
                if context.in_loop_frame:
                    here.call_line = line
            if child.name == self.boundary or _is_user_span(child):
                self._visit(child, here)
                continue
            if child.start_time_ns > cursor:
                self._python(cursor, child.start_time_ns, here)
            self._visit(child, context if own_line is None else self._child_context(here, context))
            cursor = max(cursor, child.end_time_ns)
        if node.end_time_ns > cursor:
            rest = context
            if line is not None:
                rest = context.copy()
                rest.line = line
                if context.in_loop_frame:
                    rest.call_line = line
            self._python(cursor, node.end_time_ns, rest)

    def _child_context(self, here, context):
        child = here.copy()
        child.in_loop_frame = context.in_loop_frame
        return child

    def _visit_operator(self, node, fields, context):
        line = context.line
        phase = context.phase
        name = node.name
        if name.startswith(_BACKWARD_PREFIX):
            name = name[len(_BACKWARD_PREFIX) :]
            phase = "backward"
            cause = self._seq_record.get(fields.sequence_number) if fields.sequence_number >= 0 else None
            if cause is not None:
                cause["grad"] = True
                line = cause["line"]
                context = context.copy()
                context.module = cause["module"]
        pieces = []
        self._absorb(node, context, line, phase, pieces)
        record = None
        cursor = node.start_time_ns
        for runtime in pieces:
            record = self._record(
                name, cursor, runtime.start_time_ns, context, line, phase, context.kind or "operator"
            )
            self._record(
                runtime.name,
                runtime.start_time_ns,
                runtime.end_time_ns,
                context,
                line,
                phase,
                "runtime",
                runtime,
            )
            cursor = runtime.end_time_ns
        record = (
            self._record(name, cursor, node.end_time_ns, context, line, phase, context.kind or "operator")
            or record
        )
        if phase != "backward" and record is not None:
            self._own_sequence_numbers(node, record)

    def _absorb(self, node, context, line, phase, runtime_calls):
        """Allocations and runtime calls anywhere below an operator."""
        waiting = list(node.children)
        while waiting:
            child = waiting.pop()
            kind = type(child.extra_fields).__name__
            if kind == "_ExtraFields_Allocation":
                self._allocated(child, child.extra_fields, context, line, phase)
            elif kind == "_ExtraFields_Kineto":
                runtime_calls.append(child)
            else:
                waiting.extend(child.children)
        runtime_calls.sort(key=lambda call: call.start_time_ns)

    def _own_sequence_numbers(self, node, record):
        """Backward nodes carry the number of the forward operator that made them.

        Operators that make none show the next number to be given, so the last to show a number before the
        backward pass is the one that made it.
        """
        waiting = [node]
        while waiting:
            here = waiting.pop()
            fields = here.extra_fields
            if type(fields).__name__ == "_ExtraFields_TorchOp" and fields.sequence_number >= 0:
                self._seq_record[fields.sequence_number] = record
            waiting.extend(here.children)

    def _visit_thread(self, node):
        """Threads beside the main one (autograd's, a communication library's): their outermost operators."""
        waiting = [node]
        while waiting:
            here = waiting.pop()
            fields = here.extra_fields
            if type(fields).__name__ == "_ExtraFields_TorchOp" and not _is_user_span(here):
                context = Context()
                context.phase = "backward" if here.name.startswith(_BACKWARD_PREFIX) else "other"
                before = len(self._records)
                self._visit_operator(here, fields, context)
                for record in self._records[before:]:
                    record["lane"] = f"cpu:{here.start_tid}"
            else:
                waiting.extend(here.children)

    # Rows.

    def _python(self, start_ns, end_ns, context):
        self._record(
            "python", start_ns, end_ns, context, context.line, context.phase, context.kind or "python"
        )

    def _record(self, name, start_ns, end_ns, context, line, phase, kind, runtime=None):
        if end_ns <= start_ns:
            return None
        record = {
            "name": name,
            "kind": kind,
            "phase": phase,
            "lane": "cpu:main",
            "start_us": self.microseconds(start_ns),
            "duration_us": (end_ns - start_ns) / 1e3,
            "line": line,
            "call_line": context.call_line,
            "module": context.module,
            "correlation": runtime.correlation_id if runtime is not None else 0,
            "root_call": context.root_call,
            "grad": False,
        }
        self._records.append(record)
        return record

    def _allocated(self, node, fields, context, line=None, phase=None):
        if fields.device.type == self._device_kind:
            self._allocations.append(
                {
                    "time_us": self.microseconds(node.start_time_ns),
                    "size_bytes": fields.alloc_size,
                    "address": fields.ptr or 0,
                    "phase": phase or context.phase,
                    "line": context.line if line is None else line,
                }
            )

    def _clipped(self, records):
        """The records of the iterations alone, cut where one begins or ends."""
        records.sort(key=lambda record: record["start_us"])
        clipped = []
        for mark in self.iterations:
            for record in records:
                start = max(record["start_us"], mark["start_us"])
                end = min(record["start_us"] + record["duration_us"], mark["end_us"])
                if end > start:
                    clipped.append(
                        dict(record, start_us=start, duration_us=end - start, iteration=mark["index"])
                    )
        return clipped

    # Tables.

    def _line(self, frame):
        """The index of a frame's line if it is the person's, else None."""
        path = self._user_path(frame.file_name)
        if path is None:
            return None
        return self._lines.setdefault((path, frame.line_number, frame.function_name), len(self._lines))

    def _user_path(self, name):
        """The profiler strips entries of ``sys.path`` from file names: find the file again."""
        if name not in self._files:
            places = (
                [name]
                if os.path.isabs(name)
                else [os.path.join(entry or os.getcwd(), name) for entry in sys.path]
            )
            path = next((place for place in places if os.path.isfile(place)), None)
            own = path is not None and user_code.is_user_file(path)
            self._files[name] = os.path.realpath(path) if own else None
        return self._files[name]

    def _module(self, module):
        name = self._names.get(module.self_ptr, module.cls_name)
        return self._modules.setdefault(name, len(self._modules))


def _is_user_span(node):
    fields = node.extra_fields
    return type(fields).__name__ == "_ExtraFields_TorchOp" and str(fields.scope).endswith("USER_SCOPE")


def _coalesced(records):
    """Neighbours on a lane that differ in nothing but their time become one row."""
    rows = []
    last = {}
    for record in records:
        for scratch in ("root_call", "grad"):
            record.pop(scratch, None)
        before = last.get(record["lane"])
        if (
            before is not None
            and record["kind"] in ("python", "data")
            and all(
                before[key] == record[key]
                for key in ("name", "kind", "phase", "iteration", "line", "call_line", "module")
            )
            and record["start_us"] - (before["start_us"] + before["duration_us"]) < 0.002
        ):
            before["duration_us"] = record["start_us"] + record["duration_us"] - before["start_us"]
        else:
            rows.append(record)
            last[record["lane"]] = record
    return rows
