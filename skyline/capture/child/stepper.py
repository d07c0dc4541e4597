"""Controls the script iteration by iteration at the parent's command: warm up, run bare, record, wait."""

from __future__ import annotations

import contextlib
import sys
import threading
import time

import torch

from . import facts, hidden_modules, styles, user_code
from .devices.in_use import DevicesInUse, devices_in_use
from .devices.step_clock import StepClock
from .evaluation import EvaluationReplay
from .gradient_pass import GradientPass, refusal
from .module_facts import named_modules
from .observer import Observer
from .recorded_facts import recorded_facts
from .recording import heap, memory
from .recording.allocator_peak import AllocatorPeak
from .recording.line_marker import LineMarker
from .recording.recordings import LightRecording, ProfilerFailed, Recordings
from .recording.sampled import MOST_NODES, SampledRecording
from .saves import Saves
from .trials import ExecutionConfig, Products
from .values.values_pass import ValuesPass
from .warm_up import WarmUp

# Bound at import, before the script can replace them.
_clock, _monotonic = time.perf_counter, time.monotonic
_nodes_so_far = getattr(torch.autograd, "_get_sequence_nr", int)

_MOST_WARMUP_FOR_IDLE_OPTIMIZERS = 4
"""Maximum wait for optimizers that have not stepped yet, as a multiple of the warm-up."""

_LEAST_FOR_IDLE_OPTIMIZERS = 3
_HEARTBEAT_S = 1.0
_LONGEST_READING_S = 600.0


class Stepper:
    """Runs at the iteration boundaries. Between commands the script waits inside the boundary hook.

    ``claim`` decides at the first boundary if this is the process to observe; in any other process, boundaries do
    nothing. ``warmup`` is the number of iterations to warm up for; None: until times settle. For ``longest_s`` see
    ``LongIteration``, for ``inference`` see ``Observer``.
    """

    def __init__(self, claim, warmup=None, replay_evaluation=True, longest_s=None, *, inference=False):
        self._claim = claim
        self._channel = None
        self._asked_warmup = warmup
        self._warm_up = WarmUp(warmup)
        self._mode = self._warming
        self._remaining = 0
        self._waits = False
        self._warm_rows, self._rows = [], []
        self._clock = StepClock()
        self._devices = DevicesInUse()
        self._alive_at = 0.0
        self._frames = []
        self._loop = None
        self._recordings = self._to_go_on = None
        self._record_path = ""
        self.began = _clock()
        self.boundaries = 0
        self._nodes_so_far = self._nodes = 0
        self._execution = ExecutionConfig()
        self._products = None
        self.observer = Observer(self._boundary, self._execution.follow, longest_s, inference=inference)
        self._line_marker = LineMarker()
        self._saves = Saves(lambda: self.boundaries)
        replays = replay_evaluation and not inference
        self.evaluation = (
            EvaluationReplay(self.observer.stretch, self.observer.mode_switch) if replays else None
        )

    def install(self):
        """Install all hooks; call it before the script runs."""
        self._line_marker.watch_optimizers()
        self._saves.install()
        self.observer.install()
        if self.evaluation is not None:
            self.evaluation.install()

    def ended(self):
        """The counts at the end of the script, with results of an unfinished pass or turn. Saves its recording."""
        observer = self.observer
        if self._recordings is not None:
            self._recordings.end(self._loop)
            self._write(self._recordings)
        return {
            "boundaries": self.boundaries,
            "optimizers": observer.optimizers.made,
            "backward_calls": observer.backward_calls,
            "fetches": observer.loaders.fetches,
            "called_modules": observer.called_modules,
            "modules": user_code.imported_files(),
            "saves": self._saves.taken(),
            "values": self._values_seen(),
            "rows": self._timed_rows() if self._rows else [],
        }

    def _values_seen(self):
        """The values of a pass that the script's end interrupts; None if none of its iterations is complete."""
        found, self.observer.pass_under_way = self.observer.pass_under_way, None
        return found.end() if isinstance(found, ValuesPass) and found.done else None

    def _boundary(self, frame):
        channel = self._claim.channel()
        if channel is None:
            # Another process of the run is observed.
            if self.evaluation is not None:
                self.evaluation.stop()
            return
        if self._channel is None:
            self._begin(channel)
            self._look_at_devices()
        self._clock.reach()
        if self._waits:
            self._devices.wait()
        if self._recordings is None:
            self._clock.arrive()
        self.boundaries += 1
        self._count_nodes()
        self.observer.new_iteration()
        self._mode(frame)
        self.observer.take_parts()
        if self._recordings is None:
            # While recording, the events of the clock would be recorded as the script's.
            self._clock.leave()

    def _count_nodes(self):
        """Count the operators with gradients in this iteration, from PyTorch's sequence number."""
        so_far = _nodes_so_far()
        self._nodes, self._nodes_so_far = so_far - self._nodes_so_far, so_far

    def _begin(self, channel):
        self._channel = channel
        if self._claim.adopted:
            # A process started by multiprocessing runs such finalizers at its end, but no exit handlers.
            util = sys.modules.get("multiprocessing.util")
            if util is not None:
                util.Finalize(None, lambda: channel.send("finished", **self.ended()), exitpriority=0)

    def _look_at_devices(self):
        """Update the devices in use: another one may be in use by now. All are idle from here on."""
        parameters, _ = memory.of_optimizers(self.observer.optimizers_in_use())
        self._devices = devices_in_use(parameters)
        self._clock.begin(self._devices)

    # Modes: each is called once per boundary.

    def _warming(self, frame):
        self._follow_loop(frame)
        self.observer.styles.see_stack(frame)
        done = self.observer.iterations()
        step_ms, last = self._clock.latest_ms(), None
        if step_ms is None:
            step_ms = self.observer.long.pass_ms()
        elif not self._clock.behind:
            last = self._row() | {"step_ms": step_ms}
            self._warm_rows.append(last)
        self._channel.send("boundary", count=done, step_ms=step_ms)
        enough = self._warm_up.over(done, step_ms, self._devices.reserved_bytes(), self._clock.behind)
        least = (self._asked_warmup or _LEAST_FOR_IDLE_OPTIMIZERS) * _MOST_WARMUP_FOR_IDLE_OPTIMIZERS
        if not enough or not (self.observer.all_stepped() or done >= least):
            return
        judged = self._warm_up.judged
        settled, self._warm_rows = self._warm_rows[-judged:] if judged else [], []
        self.observer.fix_anchor()
        if self.evaluation is not None:
            self.evaluation.stop()
        self._devices.wait()
        # From here on the run is measured, so that it must not be started again.
        hidden_modules.watch_variables(None)
        ended = _clock()
        self._channel.send(
            "ready",
            warmup=done,
            warmup_reason=self._warm_up.reason,
            last=last,
            settled=settled,
            loop=self._loop,
            facts=self._facts(),
            script_s=ended - self.began,
        )
        self._wait(frame)

    def _running(self, frame):
        self._rows.append(self._row())
        self._remaining -= 1
        if self._remaining:
            self._show_life()
            return
        self._channel.send("steps", rows=self._timed_rows(), saves=self._saves.taken())
        self._wait(frame)

    def _timed_rows(self):
        """The iterations of this turn so far."""
        rows, self._rows = self._rows, []
        # The device's clock measures them without a wait after each iteration; the only wait is here.
        for row, step_ms in zip(rows, self._clock.steps_ms(), strict=True):
            row["step_ms"] = step_ms
        return rows

    def _passing(self, frame):
        found = self.observer.pass_under_way
        found.end_iteration()
        if found.remaining and not found.problem:
            self._show_life()
            return
        self.observer.pass_under_way = None
        self._channel.send(found.event, **found.end())
        self._wait(frame)

    def _row(self):
        """The iteration that ends here as ``skyline.capture.events.StepRow``, without its total time."""
        parts = self.observer.parts
        return {
            "data_ms": parts.data * 1e3,
            "backward_ms": parts.backward * 1e3,
            "optimizer_ms": parts.optimizer * 1e3,
            "fetches": parts.fetches,
            "backward_calls": parts.backward_calls,
            "optimizer_steps": parts.optimizer_steps,
            "saving_ms": parts.saving * 1e3,
            "logging_ms": parts.logging * 1e3,
            "evaluation_ms": parts.evaluation * 1e3,
            "rollout_ms": parts.rollout * 1e3,
            "memory_bytes": self._in_use_bytes(),
            "host_ms": self._clock.host_ms(),
        }

    def _recording(self, frame):
        recordings = self._recordings
        recordings.mark()
        if recordings.remaining:
            self._show_life()
            return
        # Stop before the heartbeat thread starts: the profiler would record that thread.
        recordings.stop()
        if recordings.is_too_large:
            recordings.drop()
            self._recordings = self._sampled(0)
            self._mode = self._between_recordings
            return
        with self._showing_life():
            has_more = self._read(recordings)
            if recordings.wants_memory:
                live = memory.live_tensors(self._devices.kind, self.observer.optimizers_in_use())
                recordings.note_memory(live, memory.device_memory(self._devices))
            if recordings.wants_facts:
                recordings.note_facts(self._recorded_facts(recordings.observed_calls, named_modules()))
            if not has_more:
                self._write(recordings)
        if has_more:
            self._mode = self._between_recordings
            return
        self._recordings = None
        self._channel.send("recorded", path=self._record_path)
        if recordings.is_partly_read:
            # Meanwhile the parent shows the first figures.
            with self._showing_life():
                recordings.read_rest(self._loop)
                recordings.note_facts(self._recorded_facts(recordings.observed_calls, named_modules()))
        self._wait(frame)

    def _between_recordings(self, frame):
        """Let one iteration run bare: it is colder than the others, and open operators end in it.

        An operator that ends in another recording than it began in would write to freed memory.
        """
        self._mode = self._recording
        self._recordings.start()

    def _read(self, recordings):
        try:
            return recordings.read(self._loop)
        except ProfilerFailed as error:
            self._fail(
                f"PyTorch's profiler failed to return its recording ({error}).",
                "Run the command again. If it fails again, try another version of PyTorch.",
            )

    def _write(self, recordings):
        try:
            recordings.write(self._record_path)
        except OSError as error:
            self._fail(
                f"The recording cannot be written to the temporary folder: {error.strerror or error}",
                "Set TMPDIR to a folder with more free space.",
            )

    def _fail(self, message, hint):
        """Report a failure that is not the script's; the parent then ends the run."""
        self._channel.send("failed", message=message, traceback="", file="", line=0, hint=hint)
        self._channel.next_command()

    @contextlib.contextmanager
    def _showing_life(self):
        """Send heartbeats while a long recording is read."""
        done = threading.Event()

        def show():
            end = _monotonic() + _LONGEST_READING_S
            while not done.wait(_HEARTBEAT_S) and _monotonic() < end:
                self._channel.send("boundary", count=self.boundaries, step_ms=None)

        thread = threading.Thread(target=show, name="skyline-heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _show_life(self):
        """Send a heartbeat: the parent's time limit is for one step, not for all requested steps."""
        now = _clock()
        if now - self._alive_at >= _HEARTBEAT_S:
            self._alive_at = now
            self._channel.send("boundary", count=self.boundaries, step_ms=None)

    def _wait(self, frame):
        """Wait for the parent's next command, and carry it out."""
        command = self._channel.next_command()
        while command["do"] in ("try", "set", "release", "gradients", "values"):
            if command["do"] == "set":
                self._execution.change(command["threads"], command["number_format"])
            elif command["do"] == "release":
                self._release()
            elif command["do"] == "gradients":
                if self._begin_comparing(command):
                    return
            elif command["do"] == "values":
                optimizers = self.observer.optimizers_in_use()
                values = ValuesPass(optimizers, command["iterations"], command["seconds"], self.boundaries)
                self._begin_pass(values)
                return
            else:
                self._try(command)
            command = self._channel.next_command()
        self._products = None
        self._look_at_devices()
        self._remaining = command["iterations"]
        # All work of a recorded iteration ends within it: the next iteration starts with idle devices.
        self._waits = command["do"] == "record" or command.get("waiting", False)
        if command["do"] == "run":
            self._mode = self._running
        else:
            self._record_path = command["path"]
            self._begin_recording(command)

    def _begin_recording(self, command):
        self._recordings, self._to_go_on = self._to_go_on, None
        if command.get("times"):
            self._recordings.record_times(command["iterations"])
            self._mode = self._between_recordings
            return
        self._recordings = self._recordings_for(command)
        if command.get("goes_on"):
            self._to_go_on = self._recordings
        self._mode = self._recording
        self._recordings.start()

    def _begin_comparing(self, command):
        """Start to compare gradients. If this script does not allow it, send the reason and return False."""
        optimizers = self.observer.optimizers_in_use()
        problem = refusal(self.observer.styles.names(), optimizers)
        if problem:
            self._channel.send("gradients", products=[], loss=None, discarded=0, problem=problem)
            return False
        self._begin_pass(GradientPass(optimizers, command["iterations"]))
        return True

    def _begin_pass(self, wanted):
        self.observer.pass_under_way = wanted
        self._mode = self._passing
        self._waits = False

    def _release(self):
        """Free unused memory of the allocator, for other runs to use while this one waits."""
        self._devices.wait()
        self._devices.empty_cache()
        told = self._devices.room_and_capacity_bytes()
        self._channel.send("released", free_bytes=told[0] if told else 0)

    def _try(self, command):
        self._products = self._products or Products()
        row, elements = self._products.turn(command["product"], command["threads"], command["number_format"])
        self._channel.send("steps", rows=[row] if row else [], elements=elements)

    def _recordings_for(self, command):
        if command.get("light"):
            return LightRecording(self._devices.kind, command["iterations"])
        if not command["stacks"] and self._devices.peak_bytes() is not None:
            return AllocatorPeak(self._devices, command["iterations"])
        if self._nodes > MOST_NODES:
            return self._sampled(self._nodes)
        return Recordings(
            self._devices,
            self._line_marker,
            command["full"],
            command["iterations"],
            command["stacks"],
            self.observer.evaluated,
            last_first=command.get("goes_on", False),
        )

    def _sampled(self, nodes):
        return SampledRecording(self._devices, self.observer.current_part, self._loop, nodes)

    # The loop: the innermost frame of the user's code that persists from one iteration to the next.

    def _follow_loop(self, frame):
        frames = user_code.user_frames(frame)
        alive = {id(kept) for kept in self._frames}
        persistent = next((candidate for candidate in frames if id(candidate) in alive), None)
        if persistent is not None:
            self._loop = dict(user_code.line_of(persistent), first_line=persistent.f_code.co_firstlineno)
        # References to the frames prevent reuse of their ids; the warm-up is short.
        self._frames = frames

    def _recorded_facts(self, seen, named):
        updated, _ = memory.of_optimizers(self.observer.optimizers_in_use())
        return recorded_facts(self.observer, self._devices, seen, named, updated)

    def _facts(self):
        self._frames = []
        rank, world_size = styles.rank()
        replayed = self.evaluation.replayed() if self.evaluation is not None else []
        return dict(
            facts.facts_of_run(self.observer, self.observer.optimizers_in_use(), self._devices),
            styles=self.observer.styles.names(),
            passes_per_update=self.observer.hand_written.passes_per_update,
            cut_at=self.observer.long.line,
            rank=rank,
            world_size=world_size,
            evaluations=replayed,
            model=self.observer.model_calls.fact() if self.observer.model_calls is not None else None,
        )

    def _in_use_bytes(self):
        """The memory that tensors use now, in bytes; on the host, the memory of everything."""
        return self._devices.allocated_bytes() if self._devices.indices else heap.in_use_bytes()
