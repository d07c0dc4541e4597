"""Properties of events by their names, looked up once per name and applied to all rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skyline.graph.column import Flags
from skyline.lazy_dataclass import dataclass
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
    """One flag per row of the trace for each property."""

    context: Flags
    """A range around operators that is no operator itself: a step, an optimizer, a wrapper's forward."""
    marked: Flags
    """A range with a library's name like ``## forward ##``."""
    loader: Flags
    """Fetching the next batch from a ``DataLoader``."""
    optimizer: Flags
    optimizer_step: Flags
    backward: Flags
    """Work started by autograd's engine."""
    wait: Flags
    """A call that always waits for the GPU."""
    wait_for_all: Flags
    """A waiting call that waits for every stream, including streams that it does not name."""
    wait_event: Flags
    """A call that makes one stream wait for another."""
    query: Flags
    """A call that queries the progress of the GPU."""
    pageable: Flags
    """A copy from or to pageable memory."""
    on_device: Flags
    """A copy without host memory."""
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
    """True for a runtime call (CUDA or ROCm) that always waits for the GPU."""
    return any(mark in name for mark in _WAITS) or name in _IMPLIED_WAITS


def waits_for_all(name: str) -> bool:
    """True for a call that waits for every stream."""
    return any(mark in name for mark in _WAIT_FOR_ALL) or name in _IMPLIED_WAITS


def makes_stream_wait(name: str) -> bool:
    """True for a call that makes one stream wait for another while the caller continues."""
    return "StreamWaitEvent" in name


def launches_graph(name: str) -> bool:
    """True for a call that starts all work of a CUDA graph."""
    return "GraphLaunch" in name


def _is_backward(name: str) -> bool:
    return name.startswith(("autograd::engine", "torch::autograd::")) or name.rstrip("0123456789").endswith(
        "Backward"
    )
