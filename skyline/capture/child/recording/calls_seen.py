"""Finds calls that what-ifs may change in the profiler's event tree."""

from __future__ import annotations

import re

from ..observed_calls import READS, ObservedCalls
from .node import CALL
from .tree_nodes import text_of

_IN_C = re.compile(r"<built-in (?:function|method) (\w+)(?: of (\w+) object)?")
_OF_TENSORS = {
    "to": "to",
    "cuda": "cuda",
    "item": "item",
    "tolist": "tolist",
    "cpu": "cpu",
    "numpy": "numpy",
    "__float__": "float",
    "__int__": "int",
    "__index__": "int",
    "__bool__": "bool",
}
_THROUGH = "through"
"""Marks a function that only passes a call on."""

_IN_PYTHON = {
    ("torch/optim/optimizer.py", "zero_grad"): "zero_grad",
    ("torch/nn/modules/module.py", "zero_grad"): "zero_grad",
    ("torch/_tensor.py", "backward"): "backward",
    ("torch/autograd/__init__.py", "backward"): "backward",
    ("torch/_tensor.py", "__format__"): "format",
    ("torch/_tensor.py", "__repr__"): "format",
    ("torch/utils/checkpoint.py", "checkpoint"): "checkpoint",
    ("torch/utils/checkpoint.py", "checkpoint_sequential"): "checkpoint",
    ("torch/nn/utils/clip_grad.py", "_no_grad_wrapper"): _THROUGH,
    ("torch/nn/utils/clip_grad.py", "clip_grad_norm_"): "clip_grad_norm_",
    ("torch/cuda/graphs.py", "replay"): "cuda graph",
}
_ZEROES = frozenset(("aten::zero_", "aten::_foreach_zero_"))
_READS_NUMBER = frozenset(("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal"))
_MOVES = frozenset(("to", "cuda", "cpu"))

_ELSEWHERE = False
"""Takes the place of a call within a library's own code, whose inner calls are not of interest."""


class RootCall:
    """A call of a module from outside of all modules; ``records`` is True if gradients were recorded in it."""

    __slots__ = ("address", "line", "module", "records")

    def __init__(self, address, module, line):
        self.address = address
        self.module = module
        self.line = line
        self.records = False


class CallsSeen:
    """Collects the calls of interest during the walk through an event tree."""

    def __init__(self):
        self.observed_calls = ObservedCalls()
        self._roots = {}
        self._known = {}

    def entered(self, node, context):
        """The observed call for the contexts below a node, if only plumbing is between it and the user's code.

        None if there is only plumbing so far, False inside a library, else the call.
        """
        if node.kind != CALL:
            found = _IN_C.match(text_of(node, "name"))
            if found is None:
                return None
            function, owner = found.groups()
            name = _OF_TENSORS.get(function) if owner in ("Tensor", "Parameter") else None
            if function == "print" and owner is None:
                name = "print"
            return None if name is None else self.observed_calls.add(name, context.line)
        if node.extra_fields.module is not None:
            return _ELSEWHERE
        name = self._name_of(node.extra_fields.callsite)
        if name == _THROUGH:
            return None
        if name is None:
            return None if context.function is None else _ELSEWHERE
        return self.observed_calls.add(name, context.line) if name else _ELSEWHERE

    def _name_of(self, callsite):
        """The reported name of a Python function: None if it is of no interest, empty to ignore all calls in it."""
        key = callsite.file_name, text_of(callsite, "function_name")
        if key not in self._known:
            file = key[0].replace("\\", "/")
            known = (
                name
                for (path, function), name in _IN_PYTHON.items()
                if key[1] == function and file.endswith(path)
            )
            # A module that moves to a device makes a call for each of its parameters.
            keeps_out = file.endswith("torch/nn/modules/module.py")
            self._known[key] = next(known, "" if keeps_out else None)
        return self._known[key]

    def module_called(self, fields, context):
        """Note a call of a module; it is the user's own call if only plumbing is in between."""
        if context.phase == "forward":
            line = context.line if context.asked is None else -1
            self.observed_calls.module_called(
                fields.module.self_ptr, context.root_call, line, context.checkpointed
            )

    def root_called(self, fields, context):
        """Note the beginning of a forward pass, whose number is in the context."""
        self._roots[context.root_call] = RootCall(fields.module.self_ptr, context.module, context.line)

    def operator(self, name, node, context):
        """Note an operator that runs on behalf of a context."""
        call, fields = context.asked, node.extra_fields
        if context.root_call and fields.sequence_number >= 0:
            self._roots[context.root_call].records = True
        if name in _READS_NUMBER:
            self._read(call, fields, context)
        elif call:
            if call.name == "zero_grad":
                if name in _ZEROES:
                    call.options["set_to_none"] = False
            elif name == "aten::to" and call.name in _MOVES:
                _moved(call, node)

    def _read(self, call, fields, context):
        if call and call.name in READS:
            call.options.setdefault("device", _device(fields))
            call.options["reads"] = True
        elif context.phase != "optimizer":
            # An optimizer's reads of its own counters do not count.
            # An operator symbol makes no call: without the line marker its line is not known.
            line = -1 if call is None and context.function is None else context.line
            read = self.observed_calls.add("read", line, device=_device(fields))
            if context.function is not None:
                read.options["via"] = context.function

    def finish(self, trained, evaluated, places, iterations):
        """The calls of this number of iterations.

        ``trained`` are numbers of root calls that got gradients. ``evaluated`` maps the address of a module in
        evaluation mode to True if inference mode was on.
        """
        observed_calls = self.observed_calls
        functions, modules = places.functions, places.modules
        for call in observed_calls.calls:
            _settle(call, functions)
        for number, root in self._roots.items():
            known = root.address in evaluated
            if number not in trained and (known or not root.records):
                observed_calls.add(
                    "eval forward",
                    root.line,
                    module=modules[root.module],
                    grad_enabled=root.records,
                    training=False if known else None,
                    inference_mode=evaluated.get(root.address),
                )
        observed_calls.lines, observed_calls.trained = places.lines, trained
        observed_calls.iterations = max(1, iterations)
        return observed_calls


def _settle(call, functions):
    if call.name == "zero_grad":
        call.options.setdefault("set_to_none", True)
    elif call.name in ("print", "format", "float", "int", "bool") and not call.options.pop("reads", False):
        call.name = ""  # the printed or converted value was no tensor
    via = call.options.get("via")
    if via is not None:
        call.options["via"] = functions[via]
    call.options.pop("reads", None)


def _moved(call, node):
    """Note the arguments of a move to a device; a mere change of the number format does not count.

    The overloads of the operator take (tensor, dtype, layout, device, pinned, non_blocking, copy, format),
    (tensor, device, dtype, non_blocking, copy, format) or (tensor, dtype, non_blocking, copy, format).
    """
    given = node.extra_fields.inputs
    if len(given) == 5 and isinstance(given[1], int):
        call.name = ""
        return
    call.options["non_blocking"] = given[len(given) - 3] is True
    call.options["device"] = _device(node.extra_fields)
    call.options["copies"] = any(child.name == "aten::_to_copy" for child in node.children)


def _device(fields):
    tensor = next((value for value in fields.inputs if hasattr(value, "device")), None)
    return None if tensor is None else tensor.device.type
