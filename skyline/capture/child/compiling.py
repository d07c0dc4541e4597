"""torch.compile under observation: compiled code must not contain, or depend on, Skyline's hooks."""

from __future__ import annotations

import functools
import sys

import torch
from torch.optim.optimizer import Optimizer

_OPTIONS = ("mode", "backend", "fullgraph", "dynamic")


def install(on_compile):
    """Call ``on_compile(result, options)`` after each call of torch.compile from now on."""
    original = torch.compile

    @functools.wraps(original)
    def compiles(*args, **kwargs):
        result = original(*args, **kwargs)
        _keep_out()
        _hook_steps()
        on_compile(result, {name: _plain(kwargs[name]) for name in _OPTIONS if kwargs.get(name) is not None})
        return result

    torch.compile = compiles


def _plain(value):
    """The value as text or boolean; the name of a function, since a backend may be one."""
    return value if value is None or isinstance(value, (bool, str)) else getattr(value, "__name__", "given")


def _keep_out():
    """Exclude code of this package from compilation."""
    # The rules are in ``skipfiles`` in PyTorch 2.1 and 2.2.
    for name in ("torch._dynamo.trace_rules", "torch._dynamo.skipfiles"):
        rules = sys.modules.get(name)
        add = getattr(rules, "add", None)
        folders = getattr(rules, "SKIP_DIRS", None)
        if add is not None and folders is not None:
            if not any(folder in __file__ for folder in folders):
                add(__package__)
            return


def _hook_steps():
    """Make optimizers call the hooks around their steps again, if torch.compile has removed the calls.

    PyTorch 2.1 removes them from all its optimizers but marks these as hooked, so that PyTorch never restores them.
    """
    called = Optimizer.profile_hook_step(_hook_steps).__code__
    for optimizer in vars(torch.optim).values():
        if not (isinstance(optimizer, type) and issubclass(optimizer, Optimizer)):
            continue
        step = vars(optimizer).get("step")
        if getattr(step, "hooked", False) and not any(
            getattr(function, "__code__", None) is called for function in _wrapped(step)
        ):
            optimizer.step = Optimizer.profile_hook_step(step)
            optimizer.step.hooked = True


def _wrapped(function):
    """The function and all functions that it wraps."""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)
