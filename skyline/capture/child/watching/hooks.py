"""The hooks of a watched run in PyTorch's functions."""

from __future__ import annotations

import atexit
import functools
import json
import os
import threading
import time

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import dataloader as loading

from .. import compiling
from ..module_lines import ModuleLines
from ..observed_keras import KerasOptimizers
from .output import observe
from .run import WatchedRun
from .stream import Stream

_LOSSES = (
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div",
)  # fmt: skip


def install(settings):
    """Install the hooks. ``settings`` are JSON: address, share, every_s."""
    given = json.loads(settings)
    module_lines = ModuleLines()
    module_lines.install()
    Hooks(given, module_lines).install()


class Seam:
    """A function of PyTorch and the hook that replaces it, which can be removed and restored.

    If other code has replaced the function since, it is left unchanged.
    """

    def __init__(self, holder, name, wrap):
        self._holder, self._name = holder, name
        self._own = getattr(holder, name)
        self._hooked = wrap(self._own)
        self.put(True)

    def put(self, hooked):
        """Set the hook if ``hooked``, else PyTorch's own function."""
        old, new = (self._own, self._hooked) if hooked else (self._hooked, self._own)
        if getattr(self._holder, self._name) is old:
            setattr(self._holder, self._name, new)


class Hooks:
    """Passes events on to a ``WatchedRun``. After a first failure only the training continues."""

    def __init__(self, given, module_lines):
        self._given = given
        self._module_lines = module_lines
        self._off = False
        self._stream = None
        self._seams = ()
        self._renew()
        atexit.register(self._end)
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self):
        """Start a new watched run, also in a forked process."""
        self._end()
        self._stream = Stream(self._given["address"])
        self._run = WatchedRun(
            self._stream, self._given["share"], self._given["every_s"], self._module_lines, self._put
        )
        self._put(True)

    def _end(self):
        if self._stream is not None:
            self._stream.close()

    def install(self):
        """Install the hooks."""
        compiling.install(lambda *_: None)
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        KerasOptimizers(
            lambda call, part: call,
            lambda optimizer, line: None,
            self._before_step,
            self._after_keras_step,
            lambda optimizer, frame: None,
        ).install()
        self._seams = (
            Seam(torch.autograd, "backward", self._wrap_backward),
            Seam(loading._BaseDataLoaderIter, "__next__", self._wrap_next),
        )
        scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
        scaler.scale = self._wrap_scale(scaler.scale)
        for name in _LOSSES:
            setattr(torch.nn.functional, name, self._wrap_loss(getattr(torch.nn.functional, name)))
        hooked = torch.autograd.graph.saved_tensors_hooks
        hooked.__enter__ = self._wrap_enter(hooked.__enter__)
        clip = self._wrap_clip(torch.nn.utils.clip_grad_norm_)
        torch.nn.utils.clip_grad_norm_ = torch.nn.utils.clip_grad.clip_grad_norm_ = clip
        torch.save = torch.serialization.save = self._wrap_save(torch.save)
        observe(self._logged)

    def _put(self, hooked):
        """Install the hooks of passes and fetches, or remove them while the run rests.

        Even a hook that only returns takes a microsecond or more of a short iteration. The hook after a step ends the
        rest. The hooks before steps and in loss functions stay, because compiled code depends on them.
        """
        for seam in self._seams:
            seam.put(hooked)

    def _logged(self, line):
        # Records of two threads would mix.
        if threading.current_thread() is threading.main_thread():
            self._tell(self._run.logged, line)

    def _tell(self, hear, *arguments):
        if self._off:
            return
        try:
            hear(*arguments)
        except Exception as error:
            self._off = True
            at = error.__traceback__
            while at.tb_next is not None:
                at = at.tb_next
            where = f"{os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}"
            self._stream.send(kind="failed", problem=f"{type(error).__name__}: {error} ({where})")

    def _before_step(self, optimizer, args=(), kwargs=None):
        if not self._run.asleep:
            self._tell(self._run.step_begins, optimizer)

    def _after_step(self, optimizer, args=(), kwargs=None):
        # This is the fast path during a rest, and its only cost.
        run = self._run
        if run.asleep and run.sleeps_through(optimizer):
            return
        self._tell(run.step_ended, optimizer)

    def _after_keras_step(self, optimizer, frame, updated):
        if updated:
            self._after_step(optimizer)
        elif not self._run.asleep:
            self._tell(self._run.step_put_off)

    def _wrap_backward(self, backward):
        @functools.wraps(backward)
        def watched(*args, **kwargs):
            if not self._run.asleep:
                self._tell(self._run.backward_begins, args[0] if args else kwargs.get("tensors"))
            return backward(*args, **kwargs)

        return watched

    def _wrap_next(self, next_batch):
        @functools.wraps(next_batch)
        def __next__(iterator):
            if self._run.asleep:
                return next_batch(iterator)
            began = time.perf_counter()
            batch = next_batch(iterator)
            self._tell(self._run.fetched, began)
            return batch

        return __next__

    def _wrap_scale(self, scale):
        @functools.wraps(scale)
        def watched(scaler, outputs):
            self._tell(self._run.scaled, outputs)
            return scale(scaler, outputs)

        return watched

    def _wrap_loss(self, loss):
        @functools.wraps(loss)
        def watched(*args, **kwargs):
            result = loss(*args, **kwargs)
            if not torch.is_grad_enabled():
                target = args[1] if len(args) > 1 else kwargs.get("target")
                summed = kwargs.get("reduction") == "sum"
                self._tell(self._run.validated, result, len(target) if summed else 1)
            return result

        # PyTorch's compilers use the original of such a function. In a class, an assignment would mangle these names.
        setattr(watched, "__original_fn", loss)
        setattr(watched, "__script_if_tracing_wrapper", True)
        return watched

    def _wrap_enter(self, enter):
        @functools.wraps(enter)
        def watched(hooks):
            self._run.saved_tensors_hooked()
            return enter(hooks)

        return watched

    def _wrap_clip(self, clip):
        @functools.wraps(clip)
        def watched(*args, **kwargs):
            norm = clip(*args, **kwargs)
            self._run.clipped(norm)
            return norm

        return watched

    def _wrap_save(self, save):
        @functools.wraps(save)
        def watched(obj, f, *args, **kwargs):
            began = time.perf_counter()
            try:
                return save(obj, f, *args, **kwargs)
            finally:
                path = os.fspath(f) if isinstance(f, (str, os.PathLike)) else ""
                self._tell(self._run.saved, time.perf_counter() - began, path)

        return watched
