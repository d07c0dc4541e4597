"""The compiler's place, empty until somebody really wants the compiler: importing it takes a second."""

from __future__ import annotations

import importlib
import sys
import types

import torch

_NAME = "torch._dynamo"


class AbsentCompiler(types.ModuleType):
    """Stands in for ``torch._dynamo``, of which PyTorch's own methods only want to be left alone."""

    def __init__(self):
        super().__init__(_NAME)

    def disable(self, fn=None, recursive=True, **_):
        """Nothing compiles: the function is as it should be already."""
        return fn if fn is not None else lambda given: given

    def graph_break(self, *_, **__):
        """Nothing is traced by a compiler."""

    def is_compiling(self):
        """Never."""
        return False

    def __getattr__(self, name):
        if name in ("__file__", "__spec__", "__wrapped__", "__loader__"):
            raise AttributeError(name)
        return getattr(_real(self), name)


def install():
    """Take the compiler's place, unless it is imported already."""
    if _NAME not in sys.modules:
        sys.modules[_NAME] = torch._dynamo = AbsentCompiler()


def _real(absent):
    if sys.modules.get(_NAME) is absent:
        del sys.modules[_NAME]
        torch._dynamo = importlib.import_module(_NAME)
    return sys.modules[_NAME]
