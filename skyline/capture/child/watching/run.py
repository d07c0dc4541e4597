"""A watched training run: its iterations, their times, and the records about them."""

from __future__ import annotations

import os
import sys
import time

import torch

from .. import user_code
from ..devices.backend import is_capturing, used_backends
from .budget import HOOKS_S, Budget
from .idle_gap import IdleGap
from .later import Later
from .parameters import Parameters
from .sample import Sample
from .stop import stop
from .window import Window

_UNSURE_STEPS = 20
"""Number of optimizer steps after which the optimizer whose steps end iterations is fixed."""
_LOST_STEPS = 64
"""Number of steps of other optimizers after which it is chosen again."""
_PASSES_WITHOUT_STEP = 32
"""Number of backward passes without any optimizer step after which each pass is an iteration."""
_MOST_KEPT = 256
_LATE = 2
"""A window that is this many times longer than usual ends in any case."""


class WatchedRun:
    """Receives steps, passes, fetches, losses and saves. All methods are short, and none may raise.

    An iteration ends with the step of the optimizer that steps least often. Iterations are reported in windows of
    ``every_s``. ``put_hooks`` is called with False at the beginning of a rest, in which only ``step_ended`` counts,
    and with True at its end.
    """

    def __init__(self, stream, share, every_s, module_lines, put_hooks):
        self._stream = stream
        self._every_s = every_s
        self._put_hooks = put_hooks
        self._parameters = Parameters(module_lines)
        self._later = Later()
        self._steps = {}
        self._anchor = None
        self._unsure = True
        self._since_anchor = 0
        self._budget = Budget(share)
        self._window = None
        self._began = self._wake_at = 0.0
        self._sample = None
        self._sample_s = self._window_s = 0.0
        self._sampling_s = 0.0
        self._clipped = None
        self._unscaled = None
        self._passes = 0
        self._validation = []
        self._moment = None
        self._idle = None
        self._lines = {}
        self._hooked_at = -1
        self.iteration = 0
        self.asleep = False

    # Called by the hooks.

    def step_begins(self, optimizer):
        """Called before each optimizer step; samples the gradients."""
        if self._sampling():
            began = time.thread_time()
            self._sample.before_step(optimizer)
            self._sampling_s += time.thread_time() - began

    def step_put_off(self):
        """Called if the last call of an optimizer made no step, because gradients were only accumulated."""
        if self._sample is not None:
            self._sample.put_off()

    def step_ended(self, optimizer):
        """Called after every optimizer step."""
        if self._sample is not None:
            began = time.thread_time()
            self._sample.after_step()
            self._sampling_s += time.thread_time() - began
        if (id(optimizer) != self._anchor or self._unsure) and not self._is_anchor(id(optimizer)):
            return
        self._since_anchor = 0
        self._iteration_ended(time.perf_counter())

    def sleeps_through(self, optimizer):
        """True, with the iteration counted, if the rest continues after this step and the step ends an iteration."""
        if id(optimizer) != self._anchor or time.perf_counter() >= self._wake_at:
            return False
        self.iteration += 1
        self._since_anchor = 0
        return True

    def backward_begins(self, tensors):
        """Called before every backward pass."""
        window = self._window
        if window is None:
            if not self._steps:
                self._count_pass()
            return
        window.backward_begins(time.perf_counter())
        loss = self._unscaled
        self._unscaled = None
        if loss is None:
            loss = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors or ()), None)
        if isinstance(loss, torch.Tensor) and loss.numel() == 1:
            if loss.device.type == "cpu":
                window.see_loss(loss.item())
            else:
                window.loss = loss.detach()
        if not self._steps:
            self._count_pass()
        if self._sampling() and isinstance(loss, torch.Tensor):
            began = time.thread_time()
            self._note_line("backward")
            if self._hooked_at != self.iteration:
                self._sample.see_loss(loss)
            self._sampling_s += time.thread_time() - began

    def scaled(self, loss):
        """Called with a loss before a gradient scaler multiplies it."""
        if isinstance(loss, torch.Tensor) and loss.numel() == 1:
            self._unscaled = loss

    def saved_tensors_hooked(self):
        """Called if saved tensors have hooks: reading them would recompute a checkpointed segment."""
        self._hooked_at = self.iteration

    def clipped(self, norm):
        """Called with the norm of all gradients that the script's clipping computed."""
        self._clipped = norm

    def fetched(self, began):
        """Called when a loader returned a batch; ``began`` is the start of the wait."""
        window = self._window
        if window is None:
            return
        window.fetched(time.perf_counter() - began)
        if self._sample is not None or window.fetches == 1:
            self._note_line("loader")
        if self._idle is not None:
            self._idle.batch_arrived()

    def validated(self, loss, mean_of):
        """Called after a loss function without gradients; ``mean_of`` is the number of summed losses, or 1."""
        if len(self._validation) < _MOST_KEPT and isinstance(loss, torch.Tensor) and loss.numel() == 1:
            value = loss.detach()
            if not self._validation:
                self._note_line("validation")
            self._validation.append(value / mean_of if mean_of > 1 else value)

    def saved(self, seconds, path):
        """Called after ``torch.save`` with its time."""
        self._note_line("save")
        self._stream.send(kind="save", iteration=self.iteration, seconds=seconds, path=path)
        if self._window is not None:
            self._window.left_out(seconds)

    def logged(self, line):
        """Called with a line of a benchmark's log that the script wrote."""
        self._stream.send(kind="output", iteration=self.iteration, text=line)

    # Iterations.

    def _is_anchor(self, key):
        """True if the steps of this optimizer end iterations."""
        if self._since_anchor > _LOST_STEPS:
            self._steps, self._anchor, self._since_anchor = {}, None, 0
        self._steps[key] = self._steps.get(key, 0) + 1
        self._unsure = sum(self._steps.values()) <= _UNSURE_STEPS
        if self._anchor is None or self._unsure:
            # With equal counts, it is the optimizer whose first step came last.
            self._anchor = min(reversed(self._steps), key=self._steps.get)
        self._since_anchor += 1
        return key == self._anchor

    def _count_pass(self):
        self._passes += 1
        if self._passes > _PASSES_WITHOUT_STEP:
            self._iteration_ended(time.perf_counter())

    def _iteration_ended(self, now):
        self.iteration += 1
        window = self._window
        if window is None:
            if self.asleep:
                self._perhaps_wake(now)
            else:
                self._begin(now)
            return
        if self._sample is not None:
            self._finish_sample()
        if self._validation:
            self._finish_validation()
        window.iteration_ended(now)
        if self._moment is not None and self._moment.iteration_ended():
            self._moment = None
        if self._is_due(now - window.began):
            self._finish_window(now)
        if not self.asleep and self.iteration > 2 and self._budget.allows(self._sample_s):
            self._begin_sample()

    def _is_due(self, elapsed_s):
        """True if a record of this window should be sent; a late window is sent even if the budget is spent."""
        if elapsed_s < self._every_s:
            return False
        late = elapsed_s > _LATE * self._every_s
        return (late or self._budget.allows(self._window_s)) and not is_capturing()

    def _begin(self, now):
        """Start to measure, after the first iteration."""
        self._stream.send(
            kind="start",
            process=os.getpid(),
            rank=int(os.environ.get("RANK", "0") or 0),
            world=int(os.environ.get("WORLD_SIZE", "1") or 1),
            torch=torch.__version__,
            script=os.path.realpath(sys.argv[0]) if sys.argv and sys.argv[0] else "",
        )
        self._note_line("step")
        self._began = now
        self._window = Window(now)

    def _finish_window(self, now):
        working = time.thread_time()
        self._note_line("step")
        self._later.deliver()
        window = self._window
        device, memory = _look_at_device()
        record = window.record(now, self.iteration)
        record.update(memory, optimizers=len(self._steps), watching_s=self._budget.spent_s)
        record["processor_s"], record["delayed_s"] = window.processor_s(), window.delayed_s()
        record["at_s"] = now - self._began
        record["idle_s"] = None if self._idle is None else self._idle.seconds()
        budget, hooks_s = self._budget, HOOKS_S * record["iterations"]
        budget.spend(min(hooks_s, budget.share * window.processor_s()))
        self._window = Window(now)
        self._idle = None if device is None else IdleGap.begin(*device)

        def send(numbers):
            if numbers:
                record["loss"] = record["largest_loss"] = numbers[0]
            self._stream.send(kind="window", **record)

        if window.loss is None:
            send(())
        else:
            self._later.read([window.loss], send)
        for command in self._stream.commands():
            self._obey(command)
        rest = budget.rest(window.processor_s() / record["iterations"])
        # Only a step ends a rest.
        if rest and self._moment is None and self._anchor is not None and not self._unsure:
            self.asleep, self._window = True, None
            self._wake_at = now + rest * self._every_s
            self._put_hooks(False)
        self._window_s = time.thread_time() - working
        budget.spend(self._window_s)

    def _perhaps_wake(self, now):
        if now >= self._wake_at:
            self.asleep = False
            self._window = Window(now)
            self._put_hooks(True)

    # Samples.

    def _sampling(self):
        """True in an iteration with a sample; the capture of a device graph drops the sample."""
        if self._sample is not None and is_capturing():
            self._sample = None
        return self._sample is not None

    def _begin_sample(self):
        self._sample = Sample(self.iteration + 1, self._parameters)
        self._sampling_s = 0.0
        self._clipped = None

    def _finish_sample(self):
        began = time.thread_time()
        sample, self._sample = self._sample, None
        sample.send(self._later, self._stream, self._clipped)
        self._clipped = None
        cost_s = self._sampling_s + time.thread_time() - began + sample.device_s
        if self._sample_s:
            self._sample_s = cost_s
        else:
            # The first sample also searches for the names of parameters, which is not repeated later.
            self._sample_s = cost_s / 10
        self._budget.spend(self._sample_s)

    def _finish_validation(self):
        losses, self._validation = self._validation, []
        with torch.no_grad():
            mean = torch.stack([loss.reshape(()).to(losses[0]) for loss in losses]).mean()
        iteration, batches = self.iteration - 1, len(losses)

        def send(numbers):
            self._stream.send(kind="validation", iteration=iteration, loss=numbers[0], batches=batches)

        self._later.read([mean], send)

    # Commands.

    def _obey(self, command):
        if command["do"] == "stop":
            stop(command, self.iteration, self._stream)
        elif command["do"] == "profile" and self._moment is None:
            from .moment import Moment

            self._moment = Moment(command, self._stream)

    def _note_line(self, site):
        """Report the user's line at which something happens, the first time and when it changes."""
        line = user_code.innermost_line()
        if line is not None and self._lines.get(site) != line:
            self._lines[site] = line
            self._stream.send(kind="line", site=site, **line)


def _look_at_device():
    """The backend in use with the index of its device, and the record of its memory."""
    backend = next(iter(used_backends()), None)
    if backend is None or backend.is_capturing():
        return None, {}
    index = backend.current()
    free_total = backend.free_and_total_bytes(index)
    memory = {"device": backend.kind, "allocated_bytes": backend.allocated_bytes(index)}
    if free_total is not None:
        memory["free_bytes"], memory["total_bytes"] = free_total
    return (backend, index), memory
