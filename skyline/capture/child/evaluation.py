"""Evaluation before and between the first training steps: a repeated forward pass runs only twice.

Many scripts evaluate on a whole data set before they train. Nothing is measured then, so that from the third call of
a module with inputs of the same shapes on, its last result is returned again. This ends with the warm-up: an
evaluation inside a measured iteration runs, and its time counts.
"""

from __future__ import annotations

import functools
import random
import sys
import types

import torch
from torch.utils._pytree import tree_flatten, tree_map

from . import user_code
from .devices import backend
from .styles import rank

# Bound at import, before the script can replace it.
_open = open

_REAL_CALLS = 2
_SHARE_OF_FREE_MEMORY = 0.125
_PLAIN = (int, float, bool, str, bytes, type(None), torch.Size, torch.dtype, torch.device)


class EvaluationReplay:
    """Replaces the ``forward`` of classes whose modules are switched to evaluation, while the script warms up.

    Only calls of the switched module itself, with gradients off, are replayed; and only between two steps or
    backward passes, so that a target network or a teacher that is called once per step always runs. Compiled code
    has guards on the functions that it calls, and ranks wait for each other during evaluation: with torch.compile
    or several ranks nothing is replayed.
    """

    def __init__(self, stretch, switch):
        """``stretch()`` changes after each step or backward pass; ``switch`` is the ``ModeSwitch``."""
        self._stretch = stretch
        self._switch = switch
        self._now = None
        self._active = False
        self._depth = 0
        self._roots = {}
        self._forwards = {}
        self._calls = {}
        self._lines = {}
        self._counts = {}

    def install(self):
        """Start to replay evaluations."""
        self._active = True
        self._switch.listen(self._switched)
        torch.compile = self._stopping_at(torch.compile)

    def stop(self):
        """Run every call from now on, and free the stored results."""
        self._active = False
        self._switch.leave(self._switched)
        for cls, forward in self._forwards.items():
            cls.forward = forward
        self._forwards.clear()
        self._roots.clear()
        self._calls.clear()

    def replayed(self):
        """The replayed passes: the module's class, their number, and the user's line of the first one."""
        return [
            {"module": name, "count": count, "line": self._lines[name]}
            for name, count in self._counts.items()
        ]

    def _switched(self, module, mode):
        if not mode and not self._depth and rank()[1] == 1:
            self._stand_in(type(module))
            self._roots[id(module)] = module

    def _stopping_at(self, compiler):
        @functools.wraps(compiler)
        def compiles(*args, **kwargs):
            self.stop()
            return compiler(*args, **kwargs)

        return compiles

    def _stand_in(self, cls):
        # Only a forward that the class itself defines can be restored later.
        forward = cls.__dict__.get("forward")
        if cls in self._forwards or not isinstance(forward, types.FunctionType):
            return
        self._forwards[cls] = forward
        replay = self

        @functools.wraps(forward)
        def stand_in(module, *args, **kwargs):
            if (
                not replay._active
                or replay._depth
                or module.training
                or torch.is_grad_enabled()
                or backend.is_capturing()
                or id(module) not in replay._roots
            ):
                return forward(module, *args, **kwargs)
            return replay._evaluated(forward, module, args, kwargs)

        cls.forward = stand_in

    def _inside(self, original, module, args, kwargs):
        self._depth += 1
        try:
            return original(module, *args, **kwargs)
        finally:
            self._depth -= 1

    def _evaluated(self, original, module, args, kwargs):
        key = _signature((args, kwargs))
        if key is None or _has_hooks(module):
            return self._inside(original, module, args, kwargs)
        now = self._stretch()
        if now != self._now:
            self._now = now
            self._calls.clear()
        calls = self._calls.setdefault((id(module), key), [0, None])
        if calls[1] is not None:
            name = type(module).__name__
            if name not in self._counts:
                self._lines[name] = user_code.innermost_line()
            self._counts[name] = self._counts.get(name, 0) + 1
            return _copy(calls[1][0])
        before = _lasting(module)
        result = self._inside(original, module, args, kwargs)
        calls[0] += 1
        if not _alike(before, _lasting(module)):
            # A replay would omit the side effects of the call: drawn random numbers, counts, averages.
            calls[0] = -1 << 30
        elif calls[0] >= _REAL_CALLS and _copyable(result) and _fits(result):
            calls[1] = (_copy(result),)
        return result


def _lasting(module):
    """The state that a forward pass may change permanently."""
    numpy = sys.modules.get("numpy")
    versions = [buffer._version for buffer in module.buffers() if not buffer.is_inference()]
    return versions, random.getstate(), numpy and numpy.random.get_state()[1:3], backend.random_states()


def _alike(before, after):
    (versions, drawn, numpys, states), (versions_now, drawn_now, numpys_now, states_now) = before, after
    if versions != versions_now or drawn != drawn_now or len(states) != len(states_now):
        return False
    if numpys is not None and not (numpys[1] == numpys_now[1] and (numpys[0] == numpys_now[0]).all()):
        return False
    return all(torch.equal(one, other) for one, other in zip(states, states_now, strict=True))


def _has_hooks(module):
    """True if a part of the module has forward hooks, through which the script may collect results."""
    return any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def _signature(value):
    """A key of shapes and types, not contents, that equal calls share; None if there are values of other types."""
    leaves, structure = tree_flatten(value)
    parts = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            parts.append((tuple(leaf.shape), leaf.dtype, leaf.device))
        elif isinstance(leaf, _PLAIN):
            parts.append((type(leaf).__name__, leaf))
        else:
            return None
    return tuple(parts), str(structure)


def _copyable(value):
    """True if a result consists only of tensors, plain values and ordinary containers."""
    return all(
        leaf.layout is torch.strided if type(leaf) is torch.Tensor else isinstance(leaf, _PLAIN)
        for leaf in tree_flatten(value)[0]
    )


def _copy(value):
    return tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, value)


def _fits(result):
    """True if the free memory suffices to keep the result."""
    tensors = [leaf for leaf in tree_flatten(result)[0] if isinstance(leaf, torch.Tensor)]
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    return size <= _free_bytes(tensors) * _SHARE_OF_FREE_MEMORY


def _free_bytes(tensors):
    free = backend.free_bytes(tensor.device for tensor in tensors)
    if free is not None:
        return free
    try:
        with _open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 1 << 30
