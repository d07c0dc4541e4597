"""Work of a script between its updates: evaluation, steps of environments, saving of files, logging."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
import types

import torch

from .sandbox.import_hooks import after_import

_clock = time.perf_counter
_MOST_HOOKS = 64

_SAVERS = {
    "safetensors.torch": ("save_file", "save_model"),
    "torch.distributed.checkpoint.state_dict_saver": ("save",),
    "keras.src.saving.saving_lib": ("save_model", "save_weights_only"),
}
"""Functions other than ``torch.save`` that write weights to files, by module."""
_ENVIRONMENTS = {
    "gymnasium.core": "Env",
    "gymnasium.vector.vector_env": "VectorEnv",
    "gym.core": "Env",
    "gym.vector.vector_env": "VectorEnv",
}
"""Base classes of environments, by module."""


class Interlude:
    """A period of one part of a ``PartClock`` that may begin and end in different calls.

    Saving, logging, backward passes and updates within it count as such; waits for data count as part of it.
    """

    def __init__(self, clock, part):
        self._clock = clock
        self._part = part
        self._began = self._reached = None

    @property
    def is_open(self):
        """True if it has begun and has not ended."""
        return self._began is not None

    @property
    def was_reached(self):
        """True if ``reach`` has been called since its beginning."""
        return self._reached is not None

    def begin(self):
        """Begin now, unless it has begun already."""
        if self._began is None:
            self._began = self._look()

    def reach(self):
        """Note that it lasts at least until now."""
        if self._began is not None:
            self._reached = self._look()

    def end(self):
        """End it at the time of the last ``reach``; without one, it does not count."""
        began, reached = self._began, self._reached
        self._began = self._reached = None
        if began is None or reached is None:
            return
        seconds, data, others = (after - before for before, after in zip(began, reached, strict=True))
        parts = self._clock.parts
        parts.data -= data
        setattr(parts, self._part, getattr(parts, self._part) + max(0.0, seconds - others))

    def drop(self):
        """Discard it."""
        self._began = self._reached = None

    def _look(self):
        parts = self._clock.parts
        return _clock(), parts.data, parts.saving + parts.logging + parts.backward + parts.optimizer


class Evaluation:
    """Time of evaluation: from the switch of a model to evaluation until it is switched back.

    It counts only if the model, or a direct child of it, is called without gradients meanwhile. Layers that stay in
    evaluation mode while the model trains do not count, nor do decisions in a roll-out. Without a switch back,
    evaluation ends with the last such call before a backward pass. With torch.compile no evaluation is detected,
    because the hooks would cause a recompilation.
    """

    def __init__(self, switch, interlude, rolling, stands_aside):
        self._switch = switch
        self._interlude = interlude
        self._rolling = rolling
        self._stands_aside = stands_aside
        self._hooks = []
        self._modules = []

    def start(self):
        """Start to watch. Not called in the warm-up, where the hooks would prevent the replay of evaluations."""
        self._switch.listen(self._heard)

    def end(self):
        """End the evaluation: a backward pass begins, or an iteration ends."""
        if not self._modules:
            return
        if self._rolling.is_open:
            self._interlude.drop()
        self._interlude.end()
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._modules.clear()

    def _heard(self, module, mode):
        if mode:
            self._switched_back(module)
        else:
            self._switched(module)

    def _switched(self, module):
        if self._stands_aside() or any(known is module for known in self._modules):
            return
        self._modules.append(module)
        self._interlude.begin()
        for part in [module, *module.children()][: _MOST_HOOKS - len(self._hooks)]:
            with contextlib.suppress(Exception):  # scripted modules refuse some hooks
                self._hooks.append(part.register_forward_hook(self._called))

    def _called(self, module, _inputs, _output):
        if not module.training and not torch.is_grad_enabled():
            self._interlude.reach()

    def _switched_back(self, module):
        if any(known is module for known in self._modules):
            if self._interlude.was_reached:
                self._interlude.reach()
            self.end()


class RollOuts:
    """Time from the first to the last step of an environment before an update, including the decisions.

    Environments are classes derived from Gymnasium's or Gym's; environments in other processes are not seen.
    """

    def __init__(self, interlude):
        self._interlude = interlude
        self._inside = False
        self._thread = None

    def install(self):
        """Watch environments once their library is imported; call it on the thread on which the script runs."""
        self._thread = threading.get_ident()
        for module, name in _ENVIRONMENTS.items():
            after_import(module, functools.partial(self._watch, name=name))

    def _watch(self, module, name):
        base = getattr(module, name)
        watch, own = self._watch_class, vars(base).get("__init_subclass__")

        def __init_subclass__(cls, **options):
            initialize = super(base, cls).__init_subclass__ if own is None else own.__get__(None, cls)
            initialize(**options)
            watch(cls)

        waiting = [base]
        while waiting:
            cls = waiting.pop()
            watch(cls)
            waiting += cls.__subclasses__()
        base.__init_subclass__ = classmethod(__init_subclass__)

    def _watch_class(self, cls):
        for name in ("step", "reset"):
            call = vars(cls).get(name)
            if isinstance(call, types.FunctionType):
                setattr(cls, name, self._observed(call))

    def _observed(self, call):
        @functools.wraps(call)
        def observed(*args, **kwargs):
            if self._inside or threading.get_ident() != self._thread:
                return call(*args, **kwargs)
            self._inside = True
            self._interlude.begin()
            try:
                return call(*args, **kwargs)
            finally:
                self._inside = False
                self._interlude.reach()

        return observed


class Interludes:
    """All such work, as parts of a ``PartClock``.

    ``switch`` is the ``ModeSwitch``; ``stands_aside()`` is true if models must not get hooks.
    """

    def __init__(self, clock, switch, stands_aside):
        self._clock = clock
        rolling = Interlude(clock, "rollout")
        self._roll_outs = RollOuts(rolling)
        self._evaluation = Evaluation(switch, Interlude(clock, "evaluation"), rolling, stands_aside)
        self._rolling = rolling

    def install(self):
        """Install the hooks, on the thread on which the script runs, before it runs."""
        self._roll_outs.install()
        torch.save = torch.serialization.save = self._timed(torch.save, "saving")
        for module, names in _SAVERS.items():
            after_import(module, functools.partial(self._time_all, names=names, part="saving"))
        after_import("transformers.trainer", self._time_trainer)
        after_import("torch.utils.tensorboard.writer", self._time_tensorboard)
        logging.Handler.handle = self._timed(logging.Handler.handle, "logging")

    def start(self):
        """Start to watch evaluations: the warm-up is over."""
        self._evaluation.start()

    def end(self):
        """End all periods in progress: a backward pass begins, or an iteration ends."""
        self._evaluation.end()
        self._rolling.end()

    def _timed(self, call, part):
        """A call that is timed on this thread only: work of other threads does not take the script's time."""
        thread, timed = threading.get_ident(), self._clock.timed(call, part)

        @functools.wraps(call)
        def timed_here(*args, **kwargs):
            return (timed if threading.get_ident() == thread else call)(*args, **kwargs)

        return timed_here

    def _time_all(self, module, names, part):
        for name in names:
            setattr(module, name, self._timed(getattr(module, name), part))

    def _time_trainer(self, module):
        self._time_all(module.Trainer, ("_save_checkpoint", "save_model"), "saving")

    def _time_tensorboard(self, module):
        names = [name for name in vars(module.SummaryWriter) if name.startswith("add_")]
        self._time_all(module.SummaryWriter, (*names, "flush"), "logging")
