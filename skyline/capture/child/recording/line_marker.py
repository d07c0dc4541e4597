"""Adds Python calls below torch calls that make none, so that the profiler sees their lines."""

from __future__ import annotations

import sys

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode


class LineMarker(TorchFunctionMode):
    """Adds a Python call below every torch call, so that the profiler sees the line of ``a @ b`` too.

    The profiler's Python tracer records the caller's line of each call, but operator symbols make no Python call.
    The marker is off in PyTorch's own optimizers, which access thousands of tensor attributes: each access would be
    a call.
    """

    def __init__(self):
        super().__init__()
        self._entered = False
        self._aside = 0
        self._engine = None

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.backward and self._engine is None:
            with self:
                return torch.autograd.backward(*_backward_arguments(*args, **(kwargs or {})))
        return func(*args, **(kwargs or {}))

    def watch_optimizers(self):
        """Install the hooks; call it once, before the script runs."""
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)

    def start(self):
        """Start to mark; not in scripts with compiled code, which another mode would recompile."""
        if not _uses_compiled_code():
            self._entered = True
            # Old versions of PyTorch have no such function, and only one call to handle.
            self._engine = getattr(torch.autograd, "_engine_run_backward", None)
            if self._engine is not None:
                torch.autograd._engine_run_backward = self._run_backward
            self.__enter__()

    def stop(self):
        """Stop marking."""
        if self._engine is not None:
            torch.autograd._engine_run_backward = self._engine
            self._engine = None
        if self._entered:
            self._entered = False
            self.__exit__(None, None, None)

    def _run_backward(self, *args, **kwargs):
        """The backward pass. A mode is off while it handles the call: without this, also for hooks in the pass."""
        if not self._entered:
            return self._engine(*args, **kwargs)
        with self:
            return self._engine(*args, **kwargs)

    def _before_step(self, optimizer, args, kwargs):
        # A closure is user code that runs inside the step.
        has_closure = any(callable(argument) for argument in (*args, *kwargs.values()))
        if self._entered and type(optimizer).__module__.startswith("torch.optim") and not has_closure:
            self._entered = False
            self._aside += 1
            self.__exit__(None, None, None)

    def _after_step(self, optimizer, args, kwargs):
        if self._aside:
            self._aside -= 1
            self._entered = True
            self.__enter__()


def _backward_arguments(tensor, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """The arguments that ``Tensor.backward`` passes on."""
    return tensor, gradient, retain_graph, create_graph, None, inputs


def _uses_compiled_code():
    dynamo = sys.modules.get("torch._dynamo.utils")
    return bool(dynamo is not None and getattr(dynamo, "counters", {}).get("frames"))
