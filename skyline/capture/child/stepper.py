"""Drives the script iteration by iteration at the parent's command: warm up, run bare, record, wait."""

from __future__ import annotations

import time

import torch

from . import facts, memory, user_code
from .observer import Observer
from .recorder import Recorder

_MOST_WARMUP_FOR_IDLE_OPTIMIZERS = 4
"""How much longer, in multiples of the warm-up, to wait for optimizers that were made but have not stepped."""

_HEARTBEAT_S = 1.0


class Stepper:
    """Sits on the iteration boundaries. Between commands the script stands still inside the boundary hook."""

    def __init__(self, channel, warmup):
        self._channel = channel
        self._warmup = warmup
        self._mode = self._warming
        self._remaining = 0
        self._rows = []
        self._since = 0.0
        self._alive_at = 0.0
        self._frames = []
        self._loop = None
        self._recorder = None
        self._record_path = ""
        self.boundaries = 0
        self.observer = Observer(self._boundary)

    def _boundary(self, frame):
        ended = self._now()
        self.boundaries += 1
        self._mode(frame, ended)
        self.observer.new_iteration()
        self.observer.take_parts()
        self._since = self._now()

    def _now(self):
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return time.perf_counter()

    # Modes: each is called once per boundary.

    def _warming(self, frame, ended):
        self._follow_loop(frame)
        done = self.observer.iterations()
        self._channel.send(
            "boundary", count=done, step_ms=(ended - self._since) * 1e3 if self._since else None
        )
        patience = 1 if self.observer.all_stepped() else _MOST_WARMUP_FOR_IDLE_OPTIMIZERS
        if done < self._warmup * patience:
            return
        self.observer.fix_anchor()
        self._channel.send("ready", warmup=done, loop=self._loop, facts=self._facts())
        self._wait(frame)

    def _running(self, frame, ended):
        parts = self.observer.parts
        self._rows.append(
            {
                "step_ms": (ended - self._since) * 1e3,
                "data_ms": parts.data * 1e3,
                "backward_ms": parts.backward * 1e3,
                "optimizer_ms": parts.optimizer * 1e3,
                "fetches": parts.fetches,
                "backward_calls": parts.backward_calls,
            }
        )
        self._remaining -= 1
        if self._remaining:
            self._show_life(ended)
            return
        rows, self._rows = self._rows, []
        self._channel.send("steps", rows=rows, facts=self._facts())
        self._wait(frame)

    def _recording(self, frame, ended):
        self._recorder.mark()
        self._remaining -= 1
        if self._remaining:
            self._show_life(ended)
            return
        recording = self._recorder.stop(self._loop)
        recording["memory"] = live = memory.live_tensors(self._device(), self._optimizers())
        recording["peak_bytes"] = memory.peak(live, recording["trace"]["allocations"])
        self._recorder.write(recording, self._record_path)
        self._channel.send("recorded", path=self._record_path, facts=self._facts())
        self._recorder = None
        self._wait(frame)

    def _show_life(self, now):
        """The parent's time limit is for a step, not for all the steps that it asked for."""
        if now - self._alive_at >= _HEARTBEAT_S:
            self._alive_at = now
            self._channel.send("boundary", count=self.boundaries, step_ms=None)

    def _wait(self, frame):
        """Stand still until the parent says what to do next."""
        command = self._channel.next_command()
        self._remaining = command["iterations"]
        if command["do"] == "run":
            self._mode = self._running
        else:
            self._mode = self._recording
            self._record_path = command["path"]
            self._recorder = Recorder(self._device(), with_stacks=command["stacks"])
            self._recorder.start()
            self._recorder.mark()

    # The loop: the innermost frame of the person's that lives from one iteration to the next.

    def _follow_loop(self, frame):
        frames = user_code.user_frames(frame)
        alive = {id(kept) for kept in self._frames}
        persistent = next((candidate for candidate in frames if id(candidate) in alive), None)
        if persistent is not None:
            self._loop = dict(user_code.line_of(persistent), first_line=persistent.f_code.co_firstlineno)
        # Holding the frames keeps their identities from being reused; warm-up is short.
        self._frames = frames

    def _device(self):
        return facts.script_device(self._optimizers())

    def _optimizers(self):
        alive = ((seen, seen.optimizer()) for seen in self.observer.optimizers.values() if seen.steps)
        return [(seen, optimizer) for seen, optimizer in alive if optimizer is not None]

    def _facts(self):
        self._frames = []
        return facts.facts_of_run(self.observer, self._optimizers())
