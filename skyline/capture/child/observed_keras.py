"""The optimizers of Keras 3 on PyTorch, which are not PyTorch optimizers and call none of PyTorch's hooks."""

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
"""Optimizers that pass gradients on to other optimizers, which do the steps."""
SPAN = "Optimizer.step#"
"""Prefix of the names of spans around steps, as in PyTorch."""
FILE, STEP = "child/observed_keras.py", "keras_step"
"""The function that wraps a step, as a profiler sees it."""


class KerasOptimizers:
    """Reports optimizers of Keras like PyTorch's hooks report PyTorch's, once the script imports Keras.

    ``created(optimizer, line)`` is called after the construction, ``before(optimizer)`` before each step,
    ``after(optimizer, frame, updated)`` after it, and ``skipped(optimizer, frame)`` if gradients overflowed and there
    was no step. ``updated`` is false if gradients were only accumulated (``gradient_accumulation_steps``).
    ``timed(call, part)`` assigns the time of a call to a part of the iteration. If Keras uses another backend than
    PyTorch, nothing is called.
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
        """Install the hooks once the script imports Keras; it is not imported here."""
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
        """True unless the gradients of this call were only accumulated. Reads the count from the device only once."""
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
    """True if the class of an optimizer is derived from Keras's base class."""
    return any(cls.__module__ == _BASE for cls in type(optimizer).__mro__)


def name_of(optimizer):
    """The name of an optimizer's class: ``Adam`` for PyTorch, ``keras.optimizers.Adam`` for Keras."""
    cls = type(optimizer)
    return f"keras.optimizers.{cls.__name__}" if cls.__module__.startswith("keras.") else cls.__name__


def parameters_of(optimizer):
    """The tensors that an optimizer updates."""
    if is_of_keras(optimizer):
        return _tensors(optimizer._trainable_variables)
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def state_of(optimizer):
    """The tensors of an optimizer's state, without its parameters."""
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
    """The content of an optimizer in a checkpoint: its ``state_dict``, or for Keras its variables by path."""
    if is_of_keras(optimizer):
        return {path: tensor.detach() for path, tensor in _by_path(optimizer.variables).items()}
    return optimizer.state_dict()


def own_variables(module):
    """The tensors of a Keras layer by path, without those of its sublayers; none for other modules."""
    if not any(cls.__module__ == _LAYER for cls in type(module).__mro__):
        return {}
    own = (getattr(module, name, ()) for name in ("_trainable_variables", "_non_trainable_variables"))
    return _by_path([variable for variables in own for variable in variables])


def _by_path(variables):
    held = {variable.path: getattr(variable, "_value", None) for variable in variables}
    return {path: tensor for path, tensor in held.items() if tensor is not None}


def _tensors(variables):
    """The tensors of variables, without the format conversion that ``value`` may do. Unbuilt variables have none."""
    held = (getattr(variable, "_value", None) for variable in variables)
    return [tensor for tensor in held if issubclass(type(tensor), torch.Tensor)]


def _computes_with_torch():
    return sys.modules["keras.src.backend"].backend() == "torch"
