"""A profile of a script on a GPU, written by hand: a product for each pass, and one for the update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from skyline.trace.facts import Device, ModuleFact
from skyline.trace.profile import Profile
from skyline.trace.record import (
    BareTimes,
    CodeLine,
    IterationMark,
    OperatorShape,
    Phase,
    Record,
    RecordKind,
    Trace,
)

MAIN, STREAM = "cpu:main", "gpu0:stream7"


def trace(forward_us: float, backward_us: float, step_us: float, gpu_us: float) -> Trace:
    """Three iterations, recorded with a wait at the end of each: a product on the GPU for each pass."""
    records: list[Record] = []
    marks: list[IterationMark] = []
    now, number = 0.0, 0
    for index in range(3):
        begin = free = now
        for phase, host_us in (
            (Phase.FORWARD, forward_us), (Phase.BACKWARD, backward_us), (Phase.OPTIMIZER, step_us)
        ):  # fmt: skip
            number += 1
            launch = Record("cudaLaunchKernel", RecordKind.RUNTIME, phase, MAIN, index, now, 5.0, line=0)
            records.append(replace(launch, correlation=number))
            start = max(free, now + 5.0)
            free = start + gpu_us / 3
            kernel = Record("ampere_sgemm_128x64", RecordKind.KERNEL, phase, STREAM, index, start, gpu_us / 3)
            records.append(replace(kernel, correlation=number))
            records.append(
                Record("aten::mm", RecordKind.OPERATOR, phase, MAIN, index, now + 5.0, host_us - 5.0)
            )
            now += host_us
        wait = max(0.0, free - now) + 8
        records.append(
            Record("cudaDeviceSynchronize", RecordKind.RUNTIME, Phase.OPTIMIZER, MAIN, index, now, wait)
        )
        now += wait
        marks.append(IterationMark(index, begin, now))
    return Trace(tuple(marks), (CodeLine("/project/train.py", 3),), (), tuple(records))


@pytest.fixture
def on_a100(profile: Profile) -> Callable[..., Profile]:
    """Makes a profile of such a trace; some bare iterations wait for a full queue in their backward pass."""

    def made(recorded: Trace, step_ms: float, backward_ms: float, optimizer_ms: float) -> Profile:
        environment = replace(profile.environment, device=Device("NVIDIA A100-SXM4-80GB", "cuda"))
        backward = tuple(backward_ms + one for one in (0.0, 0.0, 1.0, 4.0, 9.0))
        bare = BareTimes((step_ms,) * 5, (0.0,) * 5, backward, (optimizer_ms,) * 5)
        return replace(profile, trace=recorded, times=bare, environment=environment, trials=(), loaders=())

    return made


@pytest.fixture
def gpu_steps() -> Callable[..., Trace]:
    """Three iterations, by the µs of the host in forward pass, backward pass and update, and of the GPU in all."""
    return trace


def layer_trace(kernels: Sequence[tuple[str, Phase, int, float]], shape: OperatorShape) -> Trace:
    """Three iterations of kernels, each with its name, pass, layer and µs; the host launches each in 5 µs.

    Layers are the modules ``Net.0``, ``Net.1``, …; all are called with one shape.
    """
    records: list[Record] = []
    marks: list[IterationMark] = []
    now, number = 0.0, 0
    for index in range(3):
        begin = free = now
        for name, phase, layer, took in kernels:
            number += 1
            launch = Record("cudaLaunchKernel", RecordKind.RUNTIME, phase, MAIN, index, now, 5.0, line=0)
            records.append(replace(launch, correlation=number, module=layer))
            start = max(free, now + 5.0)
            free = start + took
            kernel = Record(name, RecordKind.KERNEL, phase, STREAM, index, start, took, line=0)
            records.append(replace(kernel, correlation=number, module=layer, shape=0))
            now += 5.0
        wait = max(0.0, free - now) + 8
        records.append(
            Record("cudaDeviceSynchronize", RecordKind.RUNTIME, Phase.OTHER, MAIN, index, now, wait)
        )
        now += wait
        marks.append(IterationMark(index, begin, now))
    layers = 1 + max(layer for _, _, layer, _ in kernels)
    modules = tuple(f"Net.{layer}" for layer in range(layers))
    return Trace(tuple(marks), (CodeLine("/project/train.py", 3),), modules, tuple(records), shapes=(shape,))


@pytest.fixture
def layered(on_a100: Callable[..., Profile]) -> Callable[..., Profile]:
    """Makes a profile of such kernels on an A100; the step takes as long as they do."""

    def made(kernels: Sequence[tuple[str, Phase, int, float]], shape: OperatorShape) -> Profile:
        return on_a100(layer_trace(kernels, shape), sum(took for *_, took in kernels) / 1e3, 0.01, 0.0)

    return made


@pytest.fixture
def two_layers(layered: Callable[..., Profile]) -> Callable[[float], Profile]:
    """Makes a profile of two layers of 10 and 20 MB, which take so many µs in each pass."""

    def made(layer_us: float) -> Profile:
        kernels = [
            ("sgemm", Phase.FORWARD, 0, layer_us),
            ("sgemm", Phase.FORWARD, 1, layer_us),
            ("sgemm", Phase.BACKWARD, 1, layer_us),
            ("sgemm", Phase.BACKWARD, 0, layer_us),
            ("update", Phase.OPTIMIZER, 0, 100.0),
        ]
        profile = layered(kernels, OperatorShape("aten::mm", ((8, 8), (8, 8)), ("float32",) * 2))
        layers = tuple(
            ModuleFact(f"Net.{number}", "Linear", True, megabytes * 250_000, True, {})
            for number, megabytes in ((0, 10), (1, 20))
        )
        return replace(profile, modules=layers, parallel=None)

    return made
