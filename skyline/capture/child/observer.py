"""Observes a training script through hooks in PyTorch: optimizer steps, backward passes, loaders."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data import dataloader as loading

from . import compiling, user_code
from .devices.captures import Captures
from .hand_written_updates import HandWrittenUpdates
from .interludes import Interludes
from .labels import Labels
from .long_iteration import LongIteration
from .mode_switch import ModeSwitch
from .model_calls import ModelCalls
from .module_lines import ModuleLines
from .observed_keras import KerasOptimizers
from .observed_loaders import ObservedLoaders
from .observed_optimizers import ObservedOptimizers
from .part_clock import PartClock
from .styles import Styles

_MOST_SIZES = 64
_FURTHER_CALLS = 3
"""Calls of the first module of an iteration whose inputs are looked at, besides the first one. In reinforcement
learning the first call chooses an action, and a later one computes with a batch.
"""


class Observer:
    """Patches PyTorch once and counts calls; calls ``on_boundary`` whenever an iteration may have ended.

    The boundary is the step of the anchor: the optimizer that steps least often (a GAN has two, a critic may step
    five times as often); with equal counts, the one that steps last. A step that a gradient scaler skips because of
    overflow counts as a step. A step that is captured in a graph counts at each replay of the graph, but not at the
    capture. A script that never creates an optimizer (it updates its parameters by hand) is cut at the last backward
    pass before the gradients are cleared. An iteration that takes longer than ``longest_s`` is cut at each backward
    pass. With ``inference`` the script does not train: an iteration is a call of its model. ``on_part`` is called
    with the current part of an iteration at each change.
    """

    def __init__(self, on_boundary, on_part=None, longest_s=None, *, inference=False):
        self.styles = Styles()
        self.module_lines = ModuleLines()
        self.hand_written = HandWrittenUpdates()
        self.long = LongIteration(longest_s)
        self.model_calls = ModelCalls(self._model_called) if inference else None
        self.optimizers = ObservedOptimizers()
        self.loaders = ObservedLoaders()
        self.labels = Labels()
        self.backward_calls = 0
        self.leading = []
        self.first_dimensions = []
        self.fed_dimensions = ([], [])
        self.compiled = []
        self.evaluated = {}
        self.called_modules = False
        self._clock = PartClock(on_part)
        self.mode_switch = ModeSwitch()
        self._interludes = Interludes(
            self._clock, self.mode_switch, lambda: bool(self.compiled) or self.model_calls is not None
        )
        self._captures = Captures(self._replayed)
        self._keras = KerasOptimizers(
            self._clock.timed,
            self.optimizers.created,
            self._before_update,
            self._after_keras_step,
            self._keras_skipped,
        )
        self._on_boundary = on_boundary
        self._updates = 0
        self._in_backward = False
        self._module_hook = None
        self._compiled_hooks = []
        self._warming = True
        self._await_root = True
        self._root = None
        self._further_calls = 0
        self._iteration = 0
        self.pass_under_way = None
        """The current ``GradientPass`` or ``ValuesPass``, else None."""

    def install(self):
        """Install the hooks; call it before the script runs."""
        self.module_lines.install()
        self._captures.install()
        self.mode_switch.install()
        self._interludes.install()
        self._keras.install()
        self._wrap_construction(Optimizer, self.optimizers.created)
        self._wrap_construction(loading.DataLoader, self.loaders.created)
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        Optimizer.zero_grad = self._clock.timed(Optimizer.zero_grad, "optimizer")
        scaler = _gradient_scaler()
        scaler.step = self._wrap_scaler_step(scaler.step)
        torch.autograd.backward = self._wrap_backward(torch.autograd.backward)
        torch.Tensor.backward = self._wrap_backward(torch.Tensor.backward)
        iterator = loading._BaseDataLoaderIter
        iterator.__next__ = self._wrap_next(iterator.__next__)
        iterator.next = iterator.__next__
        compiling.install(self._compile_called)
        if self.model_calls is not None:
            self.model_calls.install()
        self._module_hook = torch.nn.modules.module.register_module_forward_pre_hook(self._module_called)

    def fix_anchor(self):
        """Keep the anchor and stop watching modules: the warm-up is over."""
        self.optimizers.fix_anchor()
        self._warming = False
        self.hand_written.fix()
        self.long.fix()
        if self.model_calls is not None:
            self.model_calls.fix()
        self._stop_watching_modules()
        self._interludes.start()

    def iterations(self):
        """Number of iterations by the current anchor: another optimizer may have been the anchor at first."""
        if self.model_calls is not None:
            return self.model_calls.iterations
        if self.long.line is not None:
            return self.long.passes
        anchor = self.optimizers.anchor
        return anchor.steps if anchor is not None else self._updates

    def all_stepped(self):
        """True if every optimizer that still exists has stepped, or if iterations do not end with steps."""
        cut_elsewhere = self.model_calls is not None or self.long.line is not None
        return cut_elsewhere or self.optimizers.all_stepped()

    def optimizers_in_use(self):
        """Pairs of the record of an optimizer and the optimizer: those that stepped, or all in a long iteration."""
        return self.optimizers.in_use(unstepped=self.long.line is not None)

    @property
    def parts(self):
        """The parts of this iteration so far."""
        return self._clock.parts

    def current_part(self):
        """The current part: ``data``, ``backward``, ``optimizer`` or ``closure``, else None."""
        return self._clock.innermost()

    def stretch(self):
        """The numbers of backward passes and of optimizer steps."""
        return self.backward_calls, self.optimizers.steps

    def take_parts(self):
        """Return the parts since the last call, and start again."""
        return self._clock.take()

    def new_iteration(self):
        """Start a new iteration, in which the next module called is the root."""
        self._await_root = True
        self._iteration += 1
        self._interludes.end()
        if self._warming:
            self.optimizers.iteration_ended()

    def _stop_watching_modules(self):
        for hook in (self._module_hook, *self._compiled_hooks):
            if hook is not None:
                hook.remove()
        self._module_hook = None
        self._compiled_hooks.clear()

    def _compile_called(self, result, options):
        """Note a compilation, and remove the hook on all modules: with it, removal later would recompile the code."""
        self.styles.add("torch.compile")
        line = user_code.innermost_line()
        fact = {"name": "compile", "per_iteration": 0.0, "line": line, "options": options}
        if fact not in self.compiled and len(self.compiled) < _MOST_SIZES:
            self.compiled.append(fact)
        if not self._warming:
            return
        if self._module_hook is not None:
            self._module_hook.remove()
            self._module_hook = None
        if isinstance(result, torch.nn.Module) and self.model_calls is not None:
            self.model_calls.compiled(result)
        if isinstance(result, torch.nn.Module):
            # The module that wraps the compiled one is not itself compiled.
            self._compiled_hooks.append(result.register_forward_pre_hook(self._module_called))

    # Construction: the lines of the user's code that create optimizers and loaders.

    def _wrap_construction(self, cls, created):
        original = cls.__init__

        def __init__(this, *args, **kwargs):
            original(this, *args, **kwargs)
            created(this, user_code.innermost_line())

        __init__.__wrapped__ = original
        __init__.__doc__ = original.__doc__
        cls.__init__ = __init__

    # Parts of the iteration.

    def _wrap_backward(self, backward):
        timed = self._clock.timed(backward, "backward")

        def counted(*args, **kwargs):
            if self._in_backward:
                # Tensor.backward calls torch.autograd.backward. The pass counts once, at the outer call, so that a
                # boundary is also outside of any function mode that the call goes through.
                return backward(*args, **kwargs)
            self._interludes.end()
            captured = self._captures.under_way()
            if self._warming and not captured:
                self._see_labels(_tensors_of(args[0] if args else kwargs.get("tensors")))
            if not self.optimizers.made and not captured:
                self.hand_written.before_pass(_tensors_of(args[0] if args else kwargs.get("tensors")))
            self._in_backward = True
            try:
                result = timed(*args, **kwargs)
            finally:
                self._in_backward = False
            if captured:
                self._captures.note(None)
                return result
            if self.pass_under_way is not None:
                self.pass_under_way.after_backward(_tensors_of(args[0] if args else kwargs.get("tensors")))
            self.parts.backward_calls += 1
            self.backward_calls += 1
            if self.model_calls is not None:
                pass
            elif self.optimizers.made:
                if self._clock.inside("closure"):
                    self.styles.add("closure")
                if self.long.passed():
                    self._on_boundary(sys._getframe(1))
            elif self.hand_written.after_pass():
                self._updates += 1
                self._on_boundary(sys._getframe(1))
            return result

        counted.__wrapped__ = backward
        counted.__name__ = backward.__name__
        counted.__doc__ = backward.__doc__
        return counted

    def _wrap_next(self, next_batch):
        timed = self._clock.timed(next_batch, "data")

        def __next__(iterator):
            batch = timed(iterator)
            self.parts.fetches += 1
            self.loaders.fetched(iterator, self._iteration)
            if self._warming:
                self._see_leading(batch)
            return batch

        return __next__

    # Boundaries.

    def _before_step(self, optimizer, args, kwargs):
        self._clock.enter("optimizer")
        self._before_update(optimizer)
        # The forward and backward passes of a closure are not the optimizer's work. The arguments of the hook may
        # include the optimizer itself.
        for index, value in enumerate(args):
            if index <= 1 and value is not optimizer and callable(value):
                return (*args[:index], self._wrap_closure(value), *args[index + 1 :]), kwargs
        if callable(kwargs.get("closure")):
            return args, {**kwargs, "closure": self._wrap_closure(kwargs["closure"])}
        return None

    def _before_update(self, optimizer):
        if self.pass_under_way is not None:
            self.pass_under_way.before_step(optimizer)

    def _wrap_closure(self, closure):
        timed = self._clock.timed(closure, "closure")
        try:
            return functools.wraps(closure)(timed)
        except AttributeError:
            return timed

    def _after_step(self, optimizer, args, kwargs):
        self._clock.leave()
        if self.pass_under_way is not None:
            self.pass_under_way.after_step(optimizer)
        if self._captures.under_way():
            seen = self.optimizers.seen(optimizer)
            if seen.step_line is None:
                seen.step_line = user_code.innermost_line()
            self._captures.note(seen)
            return
        self._stepped(self.optimizers.seen(optimizer), sys._getframe(1))

    def _after_keras_step(self, optimizer, frame, updated):
        if self.pass_under_way is not None:
            self.pass_under_way.after_step(optimizer)
        if updated:
            self._stepped(self.optimizers.seen(optimizer), frame)

    def _keras_skipped(self, optimizer, frame):
        self._stepped(self.optimizers.seen(optimizer), frame, skipped=1)

    def _replayed(self, held, frame):
        """Count the work of a replayed graph: these steps, and a backward pass for each None."""
        self.styles.add("captured graph")
        passes = held.count(None)
        self.parts.backward_calls += passes
        self.backward_calls += passes
        for seen in held:
            if seen is not None:
                self._stepped(seen, frame)
        if passes and not self.optimizers.made and self.model_calls is None:
            self._updates += 1
            self._on_boundary(frame)

    def _wrap_scaler_step(self, step):
        @functools.wraps(step)
        def scaled(scaler, optimizer, *args, **kwargs):
            before = self.optimizers.steps
            result = step(scaler, optimizer, *args, **kwargs)
            if scaler.is_enabled():
                self.styles.add("GradScaler")
                if self.optimizers.steps == before and not self._captures.under_way():
                    self._stepped(self.optimizers.seen(optimizer), sys._getframe(1), skipped=1)
            return result

        return scaled

    def _stepped(self, seen, frame, skipped=0):
        self.parts.optimizer_steps += 1
        is_anchor = self.optimizers.stepped(seen, skipped)
        if is_anchor and self.model_calls is None and self.long.ended():
            self._on_boundary(frame)

    def _model_called(self):
        if not self._captures.under_way():
            self._updates += 1
            self._on_boundary(sys._getframe(2))

    # The dimensions that show the batch size.

    def _module_called(self, module, args):
        self.called_modules = True
        self.styles.see_module(module)
        if not module.training:
            self.evaluated.setdefault(id(module), torch.is_inference_mode_enabled())
        if not (module.training or self.model_calls is not None):
            return
        if self._await_root:
            self._await_root, self._root, self._further_calls = False, id(module), _FURTHER_CALLS
        elif id(module) == self._root and self._further_calls and torch.is_grad_enabled():
            self._further_calls -= 1
        else:
            return
        inputs = [value for value in args if _holds_tensors(value)]
        if not inputs:
            named = _named_inputs(sys._getframe(1))
            inputs = [value for value in named.values() if _holds_tensors(value)]
        self._see_leading(inputs)
        self._see_fed(inputs)

    def _see_labels(self, tensors):
        count = self.labels.see(tensors)
        if count and not self.first_dimensions:
            # Neither a loader nor a module showed a batch: the script uses plain tensors.
            _add(self.first_dimensions, [count])
            _add(self.leading, [count])

    def _see_leading(self, batch):
        first, second = [], []
        _collect_leading(batch, first, second, 0)
        _add(self.first_dimensions, first)
        _add(self.leading, first + second)

    def _see_fed(self, args):
        """Note the dimensions of the first input only: later ones may be a state, a mask or a step."""
        for value in args[:1]:
            first, second = [], []
            _collect_leading(value, first, second, 0)
            _add(self.fed_dimensions[0], first[:1])
            _add(self.fed_dimensions[1], second[:1])


def _named_inputs(frame):
    """The keyword arguments of the current module call, which hooks on all modules do not receive."""
    named = frame.f_locals.get("kwargs")
    return named if isinstance(named, dict) else {}


def _holds_tensors(value):
    first = []
    _collect_leading(value, first, [], 0)
    return bool(first)


def _gradient_scaler():
    """The class that defines the step of a gradient scaler; its place depends on the version of torch."""
    return getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler


def _tensors_of(tensors):
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors or ())


def _add(known, found):
    known.extend(size for size in dict.fromkeys(found) if size not in known)
    del known[_MOST_SIZES:]


def _collect_leading(value, first, second, depth):
    # A model may be given NumPy's arrays, which it converts itself.
    if isinstance(value, torch.Tensor) or type(value).__name__ == "ndarray":
        first.extend(int(size) for size in value.shape[:1])
        if value.ndim > 1:
            # The batch is the second dimension in inputs of recurrent networks.
            second.append(int(value.shape[1]))
    elif isinstance(value, (list, tuple)) and depth < 3:
        for item in value[:8]:
            _collect_leading(item, first, second, depth + 1)
    elif isinstance(value, Mapping) and depth < 3:
        for item in list(value.values())[:8]:
            _collect_leading(item, first, second, depth + 1)
