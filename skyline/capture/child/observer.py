"""What a training script does, seen from PyTorch's own seams: optimizer steps, backward passes, loaders."""

from __future__ import annotations

import sys
import time
import weakref

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data import dataloader as loading

from . import user_code

_clock = time.perf_counter
_MOST_SIZES = 64


class Parts:
    """Seconds spent in the parts of an iteration that can be told apart without a profiler."""

    __slots__ = ("backward", "backward_calls", "data", "fetches", "optimizer")

    def __init__(self):
        self.data = self.backward = self.optimizer = 0.0
        self.fetches = self.backward_calls = 0


class OptimizerSeen:
    """An optimizer that was constructed; ``steps`` counts how often it stepped."""

    def __init__(self, optimizer, created):
        self.optimizer = weakref.ref(optimizer)
        self.created = created
        self.step_line = None
        self.steps = 0
        self.last_step = 0


class LoaderSeen:
    """A DataLoader that was iterated."""

    def __init__(self, loader, created):
        self.loader = weakref.ref(loader)
        self.created = created
        self.fetches = 0


class Observer:
    """Patches PyTorch once and counts; calls ``on_boundary`` whenever an iteration may have ended.

    The boundary is the step of the optimizer that steps least often (a GAN has two, a critic may step five
    times as often), ties going to the one that steps last. Only a script that never makes an optimizer
    (it updates its parameters by hand) is cut at its backward passes.
    """

    def __init__(self, on_boundary):
        self.parts = Parts()
        self.optimizers = {}
        self.loaders = {}
        self.backward_calls = 0
        self.leading = []
        self._on_boundary = on_boundary
        self._anchor = None
        self._step_count = 0
        self._inside = []
        self._in_backward = False
        self._module_hook = None
        self._await_root = True

    def install(self):
        """Put the hooks in place; the script runs afterwards."""
        self._wrap_construction(Optimizer, self._optimizer_created)
        self._wrap_construction(loading.DataLoader, self._loader_created)
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        Optimizer.zero_grad = self._timed_part(Optimizer.zero_grad, "optimizer")
        torch.autograd.backward = self._wrap_backward(torch.autograd.backward)
        torch.Tensor.backward = self._wrap_backward(torch.Tensor.backward)
        iterator = loading._BaseDataLoaderIter
        iterator.__next__ = self._wrap_next(iterator.__next__)
        iterator.next = iterator.__next__
        self._module_hook = torch.nn.modules.module.register_module_forward_pre_hook(self._module_called)

    def fix_anchor(self):
        """Warm-up is over: the anchor stays, and modules are no longer watched."""
        self._anchor = self._provisional_anchor()
        if self._module_hook is not None:
            self._module_hook.remove()
            self._module_hook = None

    def iterations(self):
        """How many iterations there were, by what counts as one now: the first few steps may have been another's."""
        anchor = self._anchor or self._provisional_anchor()
        return anchor.steps if anchor is not None else self.backward_calls

    def all_stepped(self):
        """Whether every optimizer that still exists has stepped."""
        return all(seen.steps for seen in self.optimizers.values() if seen.optimizer() is not None)

    def take_parts(self):
        """The parts since the last call, and start anew."""
        parts, self.parts = self.parts, Parts()
        return parts

    def new_iteration(self):
        """The next module called is the root of its iteration."""
        self._await_root = True

    # Construction: where in the person's code optimizers and loaders are made.

    def _wrap_construction(self, cls, created):
        original = cls.__init__

        def __init__(this, *args, **kwargs):
            original(this, *args, **kwargs)
            created(this, user_code.innermost_line())

        __init__.__wrapped__ = original
        __init__.__doc__ = original.__doc__
        cls.__init__ = __init__

    def _optimizer_created(self, optimizer, line):
        self.optimizers.setdefault(id(optimizer), OptimizerSeen(optimizer, line))

    def _loader_created(self, loader, line):
        self.loaders[id(loader)] = LoaderSeen(loader, line)

    # Parts: time is exclusive, so that a closure's backward is not counted as optimizer work as well.

    def _enter(self, part):
        now = _clock()
        if self._inside:
            outer = self._inside[-1]
            setattr(self.parts, outer[0], getattr(self.parts, outer[0]) + now - outer[1])
        self._inside.append([part, now])

    def _leave(self):
        now = _clock()
        part, since = self._inside.pop()
        setattr(self.parts, part, getattr(self.parts, part) + now - since)
        if self._inside:
            self._inside[-1][1] = now

    def _timed_part(self, call, part):
        def timed(*args, **kwargs):
            self._enter(part)
            try:
                return call(*args, **kwargs)
            finally:
                self._leave()

        timed.__wrapped__ = call
        timed.__name__ = call.__name__
        timed.__doc__ = call.__doc__
        return timed

    def _wrap_backward(self, backward):
        timed = self._timed_part(backward, "backward")

        def counted(*args, **kwargs):
            if self._in_backward:
                # Tensor.backward calls torch.autograd.backward: one pass, counted at the outer of the two, where
                # a boundary is also outside of any function mode that the call goes through.
                return backward(*args, **kwargs)
            self._in_backward = True
            try:
                result = timed(*args, **kwargs)
            finally:
                self._in_backward = False
            self.parts.backward_calls += 1
            self.backward_calls += 1
            if not self.optimizers:
                self._on_boundary(sys._getframe(1))
            return result

        counted.__wrapped__ = backward
        counted.__name__ = backward.__name__
        counted.__doc__ = backward.__doc__
        return counted

    def _wrap_next(self, next_batch):
        timed = self._timed_part(next_batch, "data")

        def __next__(iterator):
            batch = timed(iterator)
            self.parts.fetches += 1
            seen = self.loaders.get(id(getattr(iterator, "_skyline_loader", None)))
            if seen is None:
                seen = self._loader_of(iterator)
            if seen is not None:
                seen.fetches += 1
            if self._module_hook is not None:
                self._see_leading(batch)
            return batch

        return __next__

    def _loader_of(self, iterator):
        """The DataLoader behind an iterator: they share the dataset and the index sampler."""
        for seen in self.loaders.values():
            loader = seen.loader()
            if loader is not None and loader._index_sampler is getattr(iterator, "_index_sampler", None):
                return seen
        return None

    # Boundaries.

    def _before_step(self, optimizer, args, kwargs):
        self._enter("optimizer")

    def _after_step(self, optimizer, args, kwargs):
        self._leave()
        self._step_count += 1
        seen = self.optimizers.get(id(optimizer))
        if seen is None:
            seen = self.optimizers[id(optimizer)] = OptimizerSeen(optimizer, None)
        seen.steps += 1
        seen.last_step = self._step_count
        if seen.step_line is None:
            seen.step_line = user_code.innermost_line()
        if seen is (self._anchor or self._provisional_anchor()):
            self._on_boundary(sys._getframe(1))

    def _provisional_anchor(self):
        stepped = [seen for seen in self.optimizers.values() if seen.steps]
        return min(stepped, key=lambda seen: (seen.steps, -seen.last_step), default=None)

    # The batch, as the run shows it.

    def _module_called(self, module, args):
        if self._await_root and module.training:
            self._await_root = False
            self._see_leading(args)

    def _see_leading(self, batch):
        found = []
        _collect_leading(batch, found, 0)
        self.leading.extend(size for size in found if size not in self.leading)
        del self.leading[_MOST_SIZES:]


def _collect_leading(value, found, depth):
    if isinstance(value, torch.Tensor):
        # The batch comes second in what recurrent networks are fed.
        found.extend(int(size) for size in value.shape[: 2 if value.dim() > 1 else 1])
    elif isinstance(value, (list, tuple)) and depth < 3:
        for item in value[:8]:
            _collect_leading(item, found, depth + 1)
    elif isinstance(value, dict) and depth < 3:
        for item in list(value.values())[:8]:
            _collect_leading(item, found, depth + 1)
