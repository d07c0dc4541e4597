"""Iterations of a script that does not train: the calls of its model."""

from __future__ import annotations

import threading

from torch.nn.modules import module as modules

from . import user_code

_MOST_BETWEEN = 2000
"""Calls of other models after which a model that is not called any more no longer ends iterations."""


class CalledModel:
    """A module with parameters that is called from outside of every other module."""

    __slots__ = ("calls", "last_call", "line", "module")

    def __init__(self, module):
        # Held, so that no other module gets its identity.
        self.module = module
        self.calls = 0
        self.last_call = 0
        self.line = None


class ModelCalls:
    """Calls ``on_call`` with a frame when the call of a model has ended an iteration.

    The anchor is the model that is called least often, ties going to the one that is called last: a generation with an
    encoder and a decoder is an iteration each time that the encoder runs. Until it is fixed it is chosen at each call,
    by hooks on all modules; from then on it alone has a hook.
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
        """Watch this module alone, which stands for a compiled one: hooks on all modules would be compiled with it."""
        if self._hooks:
            self._remove()
            self._hooks = [module.register_forward_hook(lambda called, *_: self._ended(called))]

    def fix(self):
        """Warm-up is over: the anchor stays."""
        self._remove()
        if self.anchor is not None:
            anchor = self.anchor
            self._hooks = [anchor.module.register_forward_hook(lambda *_: self._count(anchor))]

    @property
    def iterations(self):
        """Number of calls of the anchor."""
        return 0 if self.anchor is None else self.anchor.calls

    def fact(self):
        """The anchor as ``skyline.capture.events.ModelSeen``; None while no model was called."""
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
    """Also after a call that raised, where this version of PyTorch can: the depth would be wrong otherwise."""
    try:
        return register(hook, always_call=True)
    except TypeError:
        return register(hook)
