"""A placeholder for PyTorch's compiler until code really uses the compiler, since its import takes a second."""

from __future__ import annotations

import importlib
import sys
import types

import torch

_NAME = "torch._dynamo"


class AbsentCompiler(types.ModuleType):
    """A placeholder for ``torch._dynamo``, which PyTorch's own methods use only to be excluded from compilation."""

    def __init__(self):
        super().__init__(_NAME)

    def disable(self, fn=None, recursive=True, **_):
        """Return the function unchanged: nothing compiles."""
        return fn if fn is not None else lambda given: given

    def graph_break(self, *_, **__):
        """Do nothing: no compiler traces the code."""

    def is_compiling(self):
        """Always False."""
        return False

    def __getattr__(self, name):
        if name in ("__file__", "__spec__", "__wrapped__", "__loader__"):
            raise AttributeError(name)
        return getattr(_real(self), name)


def install():
    """Install the placeholder, unless the compiler is imported already."""
    if _NAME not in sys.modules:
        sys.modules[_NAME] = torch._dynamo = AbsentCompiler()


def _real(absent):
    if sys.modules.get(_NAME) is absent:
        del sys.modules[_NAME]
        torch._dynamo = importlib.import_module(_NAME)
    return sys.modules[_NAME]
