"""Iterations of a script that does not train: the calls of its model."""

from __future__ import annotations

import threading

from torch.nn.modules import module as modules

from . import user_code

_MOST_BETWEEN = 2000
"""After this many calls of other models, a model that is no longer called cannot be the anchor."""


class CalledModel:
    """A module with parameters that is not called from within another module."""

    __slots__ = ("calls", "last_call", "line", "module")

    def __init__(self, module):
        # The reference prevents another module from getting the same id.
        self.module = module
        self.calls = 0
        self.last_call = 0
        self.line = None


class ModelCalls:
    """Calls ``on_call`` when the call of a model has ended an iteration.

    The anchor is the model that is called least often; with equal counts, the one called last. In a generation with an
    encoder and a decoder, an iteration ends each time the encoder runs. Until the anchor is fixed, hooks on all modules
    choose it at each call; afterwards only the anchor has a hook.
    """

    def __init__(self, on_call):
        self._on_call = on_call
        self._known = {}
        self._calls = 0
        self._depth = threading.local()
        self._hooks = []
        self.anchor = None

    def install(self):
        """Watch the calls of all modules."""
        self._hooks = [
            modules.register_module_forward_pre_hook(self._entered),
            _always(modules.register_module_forward_hook, self._left),
        ]

    def compiled(self, module):
        """Watch only this module, which wraps a compiled one: hooks on all modules would be compiled too."""
        if self._hooks:
            self._remove()
            self._hooks = [module.register_forward_hook(lambda called, *_: self._ended(called))]

    def fix(self):
        """Keep the anchor from now on: the warm-up is over."""
        self._remove()
        if self.anchor is not None:
            anchor = self.anchor
            self._hooks = [anchor.module.register_forward_hook(lambda *_: self._count(anchor))]

    @property
    def iterations(self):
        """Number of calls of the anchor."""
        return 0 if self.anchor is None else self.anchor.calls

    def fact(self):
        """The anchor as ``skyline.capture.events.ModelSeen``; None if no model was called."""
        if self.anchor is None:
            return None
        return {"name": type(self.anchor.module).__name__, "line": self.anchor.line}

    def _entered(self, module, _inputs):
        self._depth.calls = getattr(self._depth, "calls", 0) + 1

    def _left(self, module, _inputs, _output):
        self._depth.calls = max(0, getattr(self._depth, "calls", 0) - 1)
        if self._depth.calls == 0:
            self._ended(module)

    def _ended(self, module):
        known = self._known.get(id(module))
        if known is None:
            if next(module.parameters(), None) is None:
                return  # a loss, a metric, a transformation
            known = self._known[id(module)] = CalledModel(module)
        self._choose(known)

    def _choose(self, called):
        if called.line is None:
            called.line = user_code.innermost_line()
        called.calls += 1
        self._calls += 1
        called.last_call = self._calls
        recent = [one for one in self._known.values() if self._calls - one.last_call < _MOST_BETWEEN]
        self.anchor = min(recent, key=lambda one: (one.calls, -one.last_call))
        if called is self.anchor:
            self._on_call()

    def _count(self, anchor):
        anchor.calls += 1
        self._on_call()

    def _remove(self):
        for hook in self._hooks:
            hook.remove()
        self._hooks = []


def _always(register, hook):
    """Register a hook that also runs after a call that raised, if PyTorch supports it: the depth must stay right."""
    try:
        return register(hook, always_call=True)
    except TypeError:
        return register(hook)
