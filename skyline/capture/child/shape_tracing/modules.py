"""Facts about modules for the trace: the running module, its name, and its moves to another device."""

from __future__ import annotations

import sys

import torch

from .virtual import VirtualTensor, meta_like


class Modules:
    """Follows the calls of modules, and makes parameters virtual at their creation.

    ``evaluation`` handles calls of root modules in evaluation mode (see ``Evaluation``).
    """

    def __init__(self, tracer, evaluation):
        self._tracer = tracer
        self._evaluation = evaluation
        self._running = []
        self._names = {}
        self._owners = {}
        self._roots = {}
        self.root_calls = 0
        self.watcher = None

    def install(self):
        """Patch ``nn.Module`` and ``nn.Parameter``."""
        module = torch.nn.Module
        module.__call__ = self._followed(module.__call__)
        module._apply = _moved(module._apply)
        torch.nn.Parameter.__new__ = staticmethod(self._born(torch.nn.Parameter.__new__))

    def innermost(self):
        """The innermost running module, or None."""
        return self._running[-1] if self._running else None

    def path(self, module):
        """A module's path from its root, which is named by its class."""
        if id(module) not in self._names:
            self._read_names()
            self._names.setdefault(id(module), type(module).__name__)
        return self._names[id(module)]

    def owner(self, parameter):
        """The module that holds a parameter, or None."""
        if parameter is None:
            return None
        if not self._owners:
            self._read_names()
        return self._owners.get(id(parameter))

    def parameters(self):
        """The parameters of all modules that the script itself called, including those of submodules."""
        return [parameter for root in self._roots.values() for parameter in root.parameters()]

    def named(self):
        """Pairs of a path and a module, for all modules that the script itself called and their submodules."""
        # Outer modules come first: a module that the script calls directly may also be part of another one.
        sizes = {id(root): sum(1 for _ in root.modules()) for root in self._roots.values()}
        for root in sorted(self._roots.values(), key=lambda root: -sizes[id(root)]):
            yield from root.named_modules(prefix=type(root).__name__)

    def _read_names(self):
        for name, module in self.named():
            self._names.setdefault(id(module), name)
            for parameter in module._parameters.values():
                self._owners.setdefault(id(parameter), module)

    def _followed(self, call):
        def __call__(module, *args, **kwargs):
            is_root = not self._running
            if is_root:
                self.root_calls += 1
                self._roots.setdefault(id(module), module)
            self.watcher.module_called(module, sys._getframe(1), self.root_calls, is_root)
            if is_root and not module.training and not torch.is_grad_enabled():
                return self._evaluation.call(call, module, args, kwargs)
            self._running.append(module)
            try:
                return call(module, *args, **kwargs)
            finally:
                self._running.pop()

        __call__.__wrapped__ = call
        return __call__

    def _born(self, new):
        def __new__(cls, data=None, requires_grad=True):
            if cls is torch.nn.Parameter and _has_numbers(data):
                meta = meta_like(data)
                data = VirtualTensor(meta, False)
                self._tracer.ledger.take(meta, False)
            return new(cls, data, requires_grad)

        return __new__


def _has_numbers(data):
    return (
        type(data) in (torch.Tensor, torch.nn.Parameter)
        and data.layout is torch.strided
        and not data.is_meta
        and not data.is_quantized
    )


def _moved(original):
    """A replacement of ``nn.Module._apply`` in which a parameter stays the same object on every device."""

    def _apply(self, fn, recurse=True):
        if recurse:
            for child in self.children():
                child._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            with torch.no_grad():
                self._parameters[name] = _applied(parameter, fn)
            if parameter.grad is not None and self._parameters[name] is parameter:
                with torch.no_grad():
                    parameter.grad = fn(parameter.grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    _apply.__wrapped__ = original
    return _apply


def _applied(parameter, fn):
    moved = fn(parameter)
    if moved is parameter:
        return parameter
    if isinstance(parameter, VirtualTensor) or not isinstance(moved, VirtualTensor):
        parameter.data = moved
        return parameter
    return torch.nn.Parameter(moved, parameter.requires_grad)
