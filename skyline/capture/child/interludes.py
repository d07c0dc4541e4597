"""Work of a script between its updates: evaluation, steps of environments, files that it saves, its log."""

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
"""Functions that write weights to files, besides ``torch.save``; by their module."""
_ENVIRONMENTS = {
    "gymnasium.core": "Env",
    "gymnasium.vector.vector_env": "VectorEnv",
    "gym.core": "Env",
    "gym.vector.vector_env": "VectorEnv",
}
"""Classes from which environments are derived; by their module."""


class Interlude:
    """A stretch of time for one part of a ``PartClock`` that need not begin and end in one call.

    Saving, logging, passes and updates in it stay what they are; waits for data in it are its own.
    """

    def __init__(self, clock, part):
        self._clock = clock
        self._part = part
        self._began = self._reached = None

    @property
    def is_open(self):
        """It has begun, and did not end yet."""
        return self._began is not None

    @property
    def was_reached(self):
        """It has taken place."""
        return self._reached is not None

    def begin(self):
        """From now on, unless it has begun already."""
        if self._began is None:
            self._began = self._look()

    def reach(self):
        """It has lasted until now at least."""
        if self._began is not None:
            self._reached = self._look()

    def end(self):
        """It was over when it was last reached; it did not take place if it never was."""
        began, reached = self._began, self._reached
        self._began = self._reached = None
        if began is None or reached is None:
            return
        seconds, data, others = (after - before for before, after in zip(began, reached, strict=True))
        parts = self._clock.parts
        parts.data -= data
        setattr(parts, self._part, getattr(parts, self._part) + max(0.0, seconds - others))

    def drop(self):
        """It did not take place."""
        self._began = self._reached = None

    def _look(self):
        parts = self._clock.parts
        return _clock(), parts.data, parts.saving + parts.logging + parts.backward + parts.optimizer


class Evaluation:
    """Time of evaluation: from the switch of a model to evaluation until it is switched back.

    That counts if the model, or a part directly inside of it, is called without gradients meanwhile: layers that are
    kept in evaluation while the model trains are none, nor are decisions in a roll-out. Without a switch back,
    evaluation ends with the last such call before a backward pass. Code of torch.compile would be compiled again for
    the hooks: with it, no evaluation is seen.
    """

    def __init__(self, switch, interlude, rolling, stands_aside):
        self._switch = switch
        self._interlude = interlude
        self._rolling = rolling
        self._stands_aside = stands_aside
        self._hooks = []
        self._modules = []

    def start(self):
        """From now on; hooks would keep evaluations in the warm-up from being replayed."""
        self._switch.listen(self._heard)

    def end(self):
        """A backward pass begins, or an iteration ends."""
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
    """Time from the first to the last step of an environment before an update, with the decisions in between.

    Environments are classes derived from Gymnasium's or Gym's; of those in other processes nothing is seen.
    """

    def __init__(self, interlude):
        self._interlude = interlude
        self._inside = False
        self._thread = None

    def install(self):
        """Wait for the import of a library of environments; the script runs on this thread."""
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
    """All of it, as parts of a ``PartClock``.

    ``switch`` is the ``ModeSwitch``; ``stands_aside()`` is true where models must not get hooks.
    """

    def __init__(self, clock, switch, stands_aside):
        self._clock = clock
        rolling = Interlude(clock, "rollout")
        self._roll_outs = RollOuts(rolling)
        self._evaluation = Evaluation(switch, Interlude(clock, "evaluation"), rolling, stands_aside)
        self._rolling = rolling

    def install(self):
        """Put the hooks in place; the script, which runs on this thread, runs afterwards."""
        self._roll_outs.install()
        torch.save = torch.serialization.save = self._timed(torch.save, "saving")
        for module, names in _SAVERS.items():
            after_import(module, functools.partial(self._time_all, names=names, part="saving"))
        after_import("transformers.trainer", self._time_trainer)
        after_import("torch.utils.tensorboard.writer", self._time_tensorboard)
        logging.Handler.handle = self._timed(logging.Handler.handle, "logging")

    def start(self):
        """The warm-up is over."""
        self._evaluation.start()

    def end(self):
        """A backward pass begins, or an iteration ends: what was under way is over."""
        self._evaluation.end()
        self._rolling.end()

    def _timed(self, call, part):
        """A call whose time counts on this thread alone: work of other threads takes none of the script's time."""
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
