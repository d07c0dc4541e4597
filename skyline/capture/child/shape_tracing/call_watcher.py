"""Finds calls that what-ifs may change, while an iteration is traced without executing it."""

from __future__ import annotations

import functools
import inspect
import linecache
import sys

import torch

from .. import user_code
from ..observed_calls import ObservedCalls, runs_under_checkpoint
from .virtual import VirtualTensor

_NAMES = {
    "__float__": "float",
    "__int__": "int",
    "__index__": "int",
    "__bool__": "bool",
    "is_nonzero": "bool",
    "__format__": "format",
    "__repr__": "format",
    "__array__": "numpy",
    "item": "item",
    "tolist": "tolist",
    "numpy": "numpy",
}
_PLUMBING = (
    "torch/_tensor.py",
    "torch/overrides.py",
    "torch/_compile.py",
    "torch/_dynamo/eval_frame.py",
    "torch/utils/_contextlib.py",
)
_PASSES_ON = ("_no_grad_wrapper", "decorate_context")


class CallWatcher:
    """Notes calls in user code while the tracer records; ``numbered`` returns the number of a frame's line.

    ``in_backward()`` is True in a backward pass: modules that are called again in it are not a forward pass.
    """

    def __init__(self, tracer, modules, numbered, in_backward):
        self._tracer = tracer
        self._in_backward = in_backward
        self._watching = None
        self._modules = modules
        self._numbered = numbered
        self._roots = []
        self.observed_calls = ObservedCalls()

    def install(self):
        """Watch functions that run no operator of their own; call it after all other replacements of them."""
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            owner.zero_grad = self._watched(owner.zero_grad, "zero_grad", ("set_to_none",))
        torch.Tensor.backward = self._watched(torch.Tensor.backward, "backward")
        torch.autograd.backward = self._watched(torch.autograd.backward, "backward")
        clipping = sys.modules["torch.nn.utils.clip_grad"]
        watched = self._watched(clipping.clip_grad_norm_, "clip_grad_norm_")
        clipping.clip_grad_norm_ = torch.nn.utils.clip_grad_norm_ = watched
        checkpointing = sys.modules.get("torch.utils.checkpoint")
        if checkpointing is not None:
            checkpointing.checkpoint = self._watched(checkpointing.checkpoint, "checkpoint")

    def forget(self):
        """Drop the calls seen until now, which belong to iterations that are not reported."""
        self.observed_calls = ObservedCalls()
        self._roots.clear()

    def finish(self, trained, lines):
        """The calls of the traced iteration; ``trained`` are numbers of root calls that got gradients."""
        for number, line, options in self._roots:
            if number not in trained:
                self.observed_calls.add("eval forward", line, **options)
        self.observed_calls.lines, self.observed_calls.trained = lines, trained
        return self.observed_calls

    def module_called(self, module, frame, pass_number, is_root):
        """Note a call of a module from ``frame`` in the forward pass ``pass_number``, which begins with a root."""
        if not self._tracer.recording or self._in_backward():
            return
        own, via = _caller(frame)
        line = -1 if own is None else self._numbered(own)
        if via is not None:
            line = -1
        self.observed_calls.module_called(id(module), pass_number, line, runs_under_checkpoint(frame))
        records = torch.is_grad_enabled()
        if is_root and not (module.training and records):
            options = {
                "module": self._modules.path(module),
                "grad_enabled": records,
                "training": module.training,
                "inference_mode": torch.is_inference_mode_enabled(),
            }
            self._roots.append((pass_number, line, options))

    def moved(self, name, tensor, device, copies, non_blocking):
        """Note a request to move a tensor to a device."""
        if self._tracer.recording and device is not None:
            options = {"non_blocking": non_blocking, "copies": copies, "device": _kind(tensor)}
            self._call(name, sys._getframe(1), **options)

    def read(self, tensor, asked):
        """Note that the function ``asked`` reads the numbers of a tensor."""
        if not self._tracer.recording:
            return
        frame = sys._getframe(1)
        own, via = _caller(frame)
        if own is None:
            return
        name = next((_NAMES[known] for known in _inner_names(frame) if known in _NAMES), _NAMES.get(asked))
        if name == "format" and "print(" in linecache.getline(
            own.f_code.co_filename, user_code.line_number(own)
        ):
            name = "print"
        if via is not None:
            self.observed_calls.add("read", self._numbered(own), device=_kind(tensor), via=via)
        else:
            self.observed_calls.add(name or "read", self._numbered(own), device=_kind(tensor))

    def _call(self, name, frame, **options):
        own, via = _caller(frame)
        if own is not None and via is None:
            self.observed_calls.add(name, self._numbered(own), **options)

    def _watched(self, function, name, told=()):
        signature = inspect.signature(function)

        @functools.wraps(function)
        def watched(*args, **kwargs):
            if not self._tracer.recording or self._watching == name:
                return function(*args, **kwargs)
            outer, self._watching = self._watching, name
            try:
                options = {}
                if told:
                    given = signature.bind(*args, **kwargs)
                    given.apply_defaults()
                    options = {option: bool(given.arguments.get(option)) for option in told}
                self._call(name, sys._getframe(1), **options)
                return function(*args, **kwargs)
            finally:
                self._watching = outer

        return watched


def _caller(frame):
    """The calling frame in user code, and the library function in between (None if there is only plumbing)."""
    via = None
    while frame is not None:
        code = frame.f_code
        if user_code.is_user_file(code.co_filename):
            return frame, via
        if not _is_plumbing(code):
            via = f"{frame.f_globals.get('__name__', '')}.{code.co_name}"
        frame = frame.f_back
    return None, None


def _is_plumbing(code):
    path = code.co_filename.replace("\\", "/")
    return (
        code.co_filename.startswith(user_code.FOLDER)
        or path.endswith(_PLUMBING)
        or code.co_name in _PASSES_ON
    )


def _inner_names(frame):
    """Names of this package's functions on the stack up to their caller, outermost first."""
    names = []
    while frame is not None and frame.f_code.co_filename.startswith(user_code.FOLDER):
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return reversed(names)


def _kind(tensor):
    return "cuda" if isinstance(tensor, VirtualTensor) and tensor.on_gpu else "cpu"
