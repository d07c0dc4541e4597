"""The optimizers of Keras 3 on PyTorch, which are none of PyTorch's and call no hooks of theirs."""

from __future__ import annotations

import functools
import sys
import weakref

import torch

from . import user_code
from .sandbox.import_hooks import after_import

_BASE = "keras.src.optimizers.base_optimizer"
_SCALING = "keras.src.optimizers.loss_scale_optimizer"
_LAYER = "keras.src.layers.layer"
_WRAPPERS = ("LossScaleOptimizer", "MultiOptimizer")
"""Optimizers that hand gradients on to others, which step."""
SPAN = "Optimizer.step#"
"""Names of spans around steps begin so, as PyTorch names them."""
FILE, STEP = "child/observed_keras.py", "keras_step"
"""The function that stands around a step, as a profiler sees it."""


class KerasOptimizers:
    """Tells of optimizers of Keras as PyTorch's hooks tell of PyTorch's, from when the script imports Keras.

    ``created(optimizer, line)`` is called after the construction, ``before(optimizer)`` ahead of each step,
    ``after(optimizer, frame, updated)`` behind it, and ``skipped(optimizer, frame)`` where gradients overflowed and no
    step was made. ``updated`` is false where gradients are only added up (``gradient_accumulation_steps``).
    ``timed(call, part)`` gives the time of a call to a part of the iteration. Where Keras computes with another
    library than PyTorch, nothing is called.
    """

    def __init__(self, timed, created, before, after, skipped):
        self._timed = timed
        self._created = created
        self._before = before
        self._after = after
        self._skipped = skipped
        self._steps = weakref.WeakKeyDictionary()
        self._calls = 0

    def install(self):
        """Wait for the import of Keras; it is not imported here."""
        after_import(_BASE, self._watch)
        after_import(_SCALING, self._watch_scaling)

    def _watch(self, module):
        if not _computes_with_torch():
            return
        base = module.BaseOptimizer
        construct, apply = base.__init__, self._timed(base.apply, "optimizer")

        @functools.wraps(construct)
        def __init__(optimizer, *args, **kwargs):
            construct(optimizer, *args, **kwargs)
            if type(optimizer).__name__ not in _WRAPPERS:
                self._created(optimizer, user_code.innermost_line())

        @functools.wraps(base.apply)
        def keras_step(optimizer, grads, *args, **kwargs):
            self._calls += 1
            self._before(optimizer)
            updated = False
            try:
                with torch.autograd.profiler.record_function(f"{SPAN}{type(optimizer).__name__}.step"):
                    result = apply(optimizer, grads, *args, **kwargs)
                updated = len(grads) > 0 and self._is_update(optimizer)
            finally:
                self._after(optimizer, sys._getframe(1), updated)
            return result

        base.__init__, base.apply = __init__, keras_step

    def _is_update(self, optimizer):
        """True unless the gradients of this call were only added to those before. The device is asked once."""
        every = optimizer.gradient_accumulation_steps
        if not every:
            return True
        known = self._steps.get(optimizer)
        self._steps[optimizer] = int(optimizer._iterations._value) if known is None else known + 1
        return self._steps[optimizer] % every == 0

    def _watch_scaling(self, module):
        if not _computes_with_torch():
            return
        scaling = module.LossScaleOptimizer
        apply = self._timed(scaling.apply, "optimizer")

        @functools.wraps(scaling.apply)
        def keras_step(optimizer, *args, **kwargs):
            calls = self._calls
            result = apply(optimizer, *args, **kwargs)
            if self._calls == calls:
                self._skipped(optimizer.inner_optimizer, sys._getframe(1))
            return result

        scaling.apply = keras_step


def is_of_keras(optimizer):
    """True for an optimizer that Keras defines, or a class made from one."""
    return any(cls.__module__ == _BASE for cls in type(optimizer).__mro__)


def name_of(optimizer):
    """The name of an optimizer's class: ``Adam`` of PyTorch's, ``keras.optimizers.Adam`` of Keras's."""
    cls = type(optimizer)
    return f"keras.optimizers.{cls.__name__}" if cls.__module__.startswith("keras.") else cls.__name__


def parameters_of(optimizer):
    """The tensors that an optimizer updates."""
    if is_of_keras(optimizer):
        return _tensors(optimizer._trainable_variables)
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def state_of(optimizer):
    """The tensors that an optimizer keeps from step to step, without those that it updates."""
    if is_of_keras(optimizer):
        return _tensors(optimizer.variables)
    return [
        value
        for state in optimizer.state.values()
        if isinstance(state, dict)
        for value in state.values()
        if issubclass(type(value), torch.Tensor)
    ]


def saved_state(optimizer):
    """The content of an optimizer in a checkpoint: its ``state_dict``, or for Keras its variables by their paths."""
    if is_of_keras(optimizer):
        return {path: tensor.detach() for path, tensor in _by_path(optimizer.variables).items()}
    return optimizer.state_dict()


def own_variables(module):
    """The tensors of a layer of Keras by their paths, without those of its parts; none for other modules."""
    if not any(cls.__module__ == _LAYER for cls in type(module).__mro__):
        return {}
    own = (getattr(module, name, ()) for name in ("_trainable_variables", "_non_trainable_variables"))
    return _by_path([variable for variables in own for variable in variables])


def _by_path(variables):
    held = {variable.path: getattr(variable, "_value", None) for variable in variables}
    return {path: tensor for path, tensor in held.items() if tensor is not None}


def _tensors(variables):
    """Without conversion to the number format in force, as ``value`` may do; a variable may not have one yet."""
    held = (getattr(variable, "_value", None) for variable in variables)
    return [tensor for tensor in held if issubclass(type(tensor), torch.Tensor)]


def _computes_with_torch():
    return sys.modules["keras.src.backend"].backend() == "torch"
