"""torch.compile under observation: what it compiles must not contain, or depend on, what observes."""

from __future__ import annotations

import functools
import sys

import torch

_OPTIONS = ("mode", "backend", "fullgraph", "dynamic")


def install(on_compile):
    """Call ``on_compile(result, options)`` with whatever torch.compile gives and was given, from now on."""
    original = torch.compile

    @functools.wraps(original)
    def compiles(*args, **kwargs):
        result = original(*args, **kwargs)
        _keep_out()
        on_compile(result, {name: _plain(kwargs[name]) for name in _OPTIONS if kwargs.get(name) is not None})
        return result

    torch.compile = compiles


def _plain(value):
    """The value as text or switch: a backend may be a function."""
    return value if value is None or isinstance(value, (bool, str)) else getattr(value, "__name__", "given")


def _keep_out():
    """Code of this package runs as it is, never as part of a graph."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    add = getattr(rules, "add", None)
    folders = getattr(rules, "SKIP_DIRS", None)
    if add is None or folders is None or any(folder in __file__ for folder in folders):
        return
    add(__package__)
