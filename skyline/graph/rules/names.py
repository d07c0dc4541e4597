"""What the names of events say, looked up once per name and spread over the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skyline.graph.column import Flags
from skyline.trace.kineto.profiler_trace import ProfilerTrace

_CONTEXTS = ("ProfilerStep", "Optimizer.", "DistributedDataParallel.", "## ", "torch/", "nn.Module: ")
_LOADER = "enumerate(DataLoader)"
_WAITS = ("DeviceSynchronize", "StreamSynchronize", "EventSynchronize", "CtxSynchronize")
_WAIT_FOR_ALL = ("DeviceSynchronize", "CtxSynchronize")
_IMPLIED_WAITS = ("cudaFree", "hipFree")
_ON_DEVICE = ("DtoD", "DeviceToDevice", "PtoP", "PeerToPeer")
_COLLECTIVE_KERNELS = ("nccl", "rccl", "ncclkernel", "ncclDevKernel")


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """One flag per row of the trace and question."""

    context: Flags
    """A range around operators and no operator: a step, an optimizer, a wrapper's forward."""
    marked: Flags
    """A range that a library named like ``## forward ##``."""
    loader: Flags
    """Taking the next batch from a ``DataLoader``."""
    optimizer: Flags
    optimizer_step: Flags
    backward: Flags
    """Started by autograd's engine."""
    wait: Flags
    """A call that waits for the GPU by its nature."""
    wait_for_all: Flags
    """One of those that waits for every stream, even those that it does not name."""
    wait_event: Flags
    """A call that makes one stream wait for another."""
    query: Flags
    """A call that asks how far the GPU is."""
    pageable: Flags
    """A copy from or to memory that the operating system may move."""
    on_device: Flags
    """A copy that the host's memory has no part in."""
    collective: Flags
    """A kernel that exchanges data with other ranks."""


def names_of(trace: ProfilerTrace) -> Names:
    """The flags of every row."""

    def rows(asked: Callable[[str], bool]) -> Flags:
        used = np.zeros(len(trace.strings), np.bool_)
        for name in present:
            used[name] = asked(trace.strings[name])
        return used[trace.name]

    present: list[int] = np.flatnonzero(np.bincount(trace.name, minlength=1)).tolist()
    return Names(
        rows(lambda name: name.startswith(_CONTEXTS)),
        rows(lambda name: name.startswith("## ")),
        rows(lambda name: name.startswith(_LOADER)),
        rows(lambda name: name.startswith("Optimizer.")),
        rows(lambda name: name.startswith("Optimizer.step")),
        rows(_is_backward),
        rows(waits_for_gpu),
        rows(waits_for_all),
        rows(makes_stream_wait),
        rows(lambda name: "EventQuery" in name or "StreamQuery" in name),
        rows(lambda name: "Pageable" in name),
        rows(lambda name: any(mark in name for mark in _ON_DEVICE)),
        rows(lambda name: name.lower().startswith(_COLLECTIVE_KERNELS)),
    )


def waits_for_gpu(name: str) -> bool:
    """Whether a call of CUDA's or ROCm's runtime waits for the GPU by its nature."""
    return any(mark in name for mark in _WAITS) or name in _IMPLIED_WAITS


def waits_for_all(name: str) -> bool:
    """Whether it waits for every stream."""
    return any(mark in name for mark in _WAIT_FOR_ALL) or name in _IMPLIED_WAITS


def makes_stream_wait(name: str) -> bool:
    """Whether it makes a stream wait for another, while the caller goes on."""
    return "StreamWaitEvent" in name


def launches_graph(name: str) -> bool:
    """Whether it starts all work of a CUDA graph."""
    return "GraphLaunch" in name


def _is_backward(name: str) -> bool:
    return name.startswith(("autograd::engine", "torch::autograd::")) or name.rstrip("0123456789").endswith(
        "Backward"
    )
