"""Controls a script with virtual tensors: two or more iterations to set up, then one that is recorded."""

from __future__ import annotations

import json
import os

import torch
from torch.utils import _pytree as trees

from .. import stepper as measured
from .. import user_code
from ..devices.backend import backend_of
from ..devices.in_use import DevicesInUse
from ..recording import memory
from ..recording.memory import of_optimizers
from ..recording.rows import kept_bytes
from .autocast import Autocast
from .call_watcher import CallWatcher
from .facade import Facade
from .loaders import Loaders
from .modules import Modules
from .place import Attributor
from .scope import TensorScope
from .tracer import OperatorTracer
from .virtual import GPU, VirtualTensor, meta_like

_WARMUP = 2
"""Iterations before the recorded one: scripts do periodic reports after their first iteration."""
_MOST_BRANCHES = 5
_RETRIES = 2
"""Maximum number of iterations that are skipped because the script evaluated in them."""


class ShapeStepper(measured.Stepper):
    """The stepper of a run in which nothing is computed. ``gpu`` describes the GPU; None traces the CPU."""

    def __init__(self, claim, gpu):
        super().__init__(claim, _WARMUP, replay_evaluation=False)
        self._gpu = gpu
        self._before = []
        self._retries = _RETRIES
        self._scope = TensorScope(self._in_gpu_backward)
        processor = bool(gpu and gpu.get("processor"))
        self._tracer = tracer = OperatorTracer(gpu is not None, self._scope, processor)
        self._evaluations = Evaluation(tracer)
        self._loaders = Loaders(tracer)
        self._facade = Facade(tracer, gpu)
        tracer.modules = Modules(tracer, self._evaluations)
        tracer.places = Attributor(self.observer, tracer.modules)
        tracer.watcher = CallWatcher(tracer, tracer.modules, tracer.places.number, self._in_backward)
        tracer.modules.watcher = self._scope.watcher = tracer.watcher

    def install(self):
        """Install the virtual GPU; call it before the script runs."""
        # Only work of this thread is traced; this prevents libraries from loading weights on other threads.
        os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")
        self._facade.install_everywhere()
        if self._gpu is not None:
            Autocast().install()
            self._facade.install()
        self._loaders.install()
        self.observer.install()
        self._tracer.modules.install()
        self._tracer.watcher.install()
        self._scope.__enter__()
        self._tracer.start()

    def _in_backward(self):
        return self.observer.current_part() == "backward"

    def _in_gpu_backward(self):
        return self._in_backward() and self._tracer.ledger.live_bytes[True] > 0

    def _look_at_devices(self):
        """Do nothing: there is nothing to wait for, and nothing to time."""

    def _wait(self, frame):
        command = self._channel.next_command()
        self._record_path = command["path"]
        self._mode = self._tracing
        tracer = self._tracer
        self._before = user_code.user_frames(frame)
        tracer.places.follow(self._before)
        self._loaders.forget()
        tracer.record(self._retries)

    def _on_gpu(self):
        parameters, _ = memory.of_optimizers(self.observer.optimizers_in_use())
        if parameters:
            return parameters[0].device.type == GPU.type
        parameters = self._tracer.modules.parameters()
        return parameters[0].is_cuda if parameters else bool(self._tracer.ledger.live_bytes[True])

    def _tracing(self, frame):
        tracer = self._tracer
        tracer.recording = False
        if tracer.spoiled:
            self._retries -= 1
            self._before = user_code.user_frames(frame)
            tracer.places.follow(self._before)
            self._loaders.forget()
            tracer.record(self._retries)
            return
        optimizers = self.observer.optimizers_in_use()
        on_gpu = self._on_gpu()
        parts = self.observer.parts
        held = owned(tracer.ledger, optimizers, tracer.modules, on_gpu)
        loop = self._persistent(frame)
        trace = tracer.rows.trace(tracer.places, on_gpu, loop)
        seen = tracer.watcher.finish(tracer.rows.trained(), trace["lines"])
        seen.kept = kept_bytes(trace["allocations"], trace["records"], trace["modules"])
        for allocation in trace["allocations"]:
            del allocation["module"]
        recording = {
            **self._recorded_facts(seen, tracer.modules.named()),
            "trace": trace,
            "recorded_ms": [trace["iterations"][0]["end_us"] / 1e3],
            "memory": held,
            "peak_bytes": tracer.ledger.peak_bytes[on_gpu],
        }
        with open(os.open(self._record_path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(json.dumps(recording))
        self._channel.send(
            "recorded",
            path=self._record_path,
            facts=self._facts(),
            fetches=parts.fetches,
            backward_calls=parts.backward_calls,
            optimizer_steps=parts.optimizer_steps,
            on_gpu=on_gpu,
            loop=loop and dict(user_code.line_of(loop), first_line=loop.f_code.co_firstlineno),
            branches=self._branches(),
            compiled=self._facade.compiled,
            asked=sorted(self._facade.asked),
            samples_repeated=self._loaders.shortened,
            repeated_reads=self._loaders.repeated,
            timed_reads=self._loaders.timed,
            untimed_fetches=self._loaders.untimed,
        )
        super()._wait(frame)

    def _persistent(self, frame):
        """The innermost frame of user code that already existed when the iteration began."""
        before = {id(kept) for kept in self._before}
        return next((now for now in user_code.user_frames(frame) if id(now) in before), None)

    def _branches(self):
        places = self._tracer.places
        found = sorted(self._tracer.branches)
        return [dict(places.line(line), what=what) for line, what in found[:_MOST_BRANCHES]]

    def _facts(self):
        self._devices = _VirtualDevice() if self._on_gpu() else DevicesInUse()
        return super()._facts()


class _VirtualDevice(DevicesInUse):
    """The one GPU that the facade simulates; no driver knows it."""

    def __init__(self):
        super().__init__(GPU.type, backend_of(GPU.type), (0,))

    def identities(self):
        return []


class Evaluation:
    """Answers repeated calls of a root module in evaluation mode without running the module again.

    Nothing is computed in either case; this only saves the time to find the shapes again. The traced iteration
    itself is not shortened.
    """

    def __init__(self, tracer):
        self._tracer = tracer
        self._answers = {}

    def call(self, call, module, args, kwargs):
        """The module's answer, from the cache if it was called with arguments of the same shapes before."""
        leaves = trees.tree_leaves((args, kwargs))
        key = (id(module), tuple(_described(leaf) for leaf in leaves))
        self._tracer.evaluating()
        if key in self._answers and not self._tracer.recording:
            return trees.tree_map(self._again, self._answers[key])
        running = self._tracer.modules._running
        running.append(module)
        try:
            answer = call(module, *args, **kwargs)
        finally:
            running.pop()
        self._answers[key] = trees.tree_map(_template, answer)
        return answer

    def _again(self, leaf):
        if not isinstance(leaf, _Template):
            return leaf
        meta = meta_like(leaf.meta)
        self._tracer.ledger.take(meta, leaf.on_gpu)
        return VirtualTensor(meta, leaf.on_gpu)


class _Template:
    """The properties of a virtual tensor, without its memory."""

    __slots__ = ("meta", "on_gpu")

    def __init__(self, tensor):
        self.meta = meta_like(tensor.meta)
        self.on_gpu = tensor.on_gpu


def _template(leaf):
    return _Template(leaf) if isinstance(leaf, VirtualTensor) else leaf


def _described(leaf):
    if isinstance(leaf, torch.Tensor):
        return tuple(leaf.shape), leaf.dtype
    return leaf if isinstance(leaf, (int, float, str, bool, type(None))) else id(leaf)


def owned(ledger, optimizers, modules, on_gpu):
    """Bytes held on the script's device by parameters, gradients, optimizer state and the rest."""
    parameters, states = of_optimizers(optimizers)
    parameters += modules.parameters()
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    seen = set()
    sizes = {
        "parameter_bytes": _taken(parameters, ledger, on_gpu, seen),
        "gradient_bytes": _taken(gradients, ledger, on_gpu, seen),
        "optimizer_bytes": _taken(states, ledger, on_gpu, seen),
    }
    sizes["other_bytes"] = max(0, ledger.live_bytes[on_gpu] - sum(sizes.values()))
    return sizes


def _taken(tensors, ledger, on_gpu, seen):
    total = 0
    for tensor in tensors:
        block = ledger.block(tensor.meta if isinstance(tensor, VirtualTensor) else tensor)
        if block is not None and block.on_gpu == on_gpu and block.address not in seen:
            seen.add(block.address)
            total += block.size_bytes
    return total
