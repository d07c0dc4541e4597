"""The kind of an event, independent of the profiler's version."""

from __future__ import annotations

from enum import IntEnum


class Category(IntEnum):
    """Kinds of events, outermost first: of two with the same span, the lower value contains the other."""

    ANNOTATION = 0
    """A range that the user or the profiler named on a host thread; ``ProfilerStep#N`` is one in every trace."""
    PYTHON = 1
    """A Python function."""
    CPU_OP = 2
    """An operator on a host thread."""
    RUNTIME = 3
    """A call of the accelerator's runtime: CUDA, HIP, XPU, MTIA."""
    DRIVER = 4
    """A call of its driver, such as ``cuLaunchKernel``."""
    OVERHEAD = 5
    """Overhead of the profiler itself on a thread: buffers flushed or requested."""
    GPU_ANNOTATION = 6
    """The time range of a stream that ran the work of an annotation: a copy of the annotation, without work."""
    KERNEL = 7
    COPY = 8
    SET = 9
    SYNC = 10
    """A wait as recorded by the accelerator's tracing; on request only, in addition to the runtime call."""

    @property
    def on_gpu(self) -> bool:
        """True if events of this kind are on a stream and not on a host thread."""
        return self >= Category.GPU_ANNOTATION


GPU_WORK = (Category.KERNEL, Category.COPY, Category.SET)
"""The kinds that occupy a stream."""

_NAMES: dict[str, Category] = {
    "operator": Category.CPU_OP,
    "cpu_op": Category.CPU_OP,
    "user_annotation": Category.ANNOTATION,
    "python_function": Category.PYTHON,
    "runtime": Category.RUNTIME,
    "driver": Category.DRIVER,
    "overhead": Category.OVERHEAD,
    "kernel": Category.KERNEL,
    "concurrent_kernel": Category.KERNEL,
    "mtia_ccp_events": Category.KERNEL,
    "hpu_op": Category.KERNEL,
    "memcpy": Category.COPY,
    "gpu_memcpy": Category.COPY,
    "memset": Category.SET,
    "gpu_memset": Category.SET,
    "gpu_user_annotation": Category.GPU_ANNOTATION,
}

# Of an accelerator: cuda_runtime, hip_runtime, xpu_runtime, mtia_runtime, privateuse1_runtime, cuda_sync, …
_SUFFIXES: tuple[tuple[str, Category], ...] = (
    ("_runtime", Category.RUNTIME),
    ("_driver", Category.DRIVER),
    ("_sync", Category.SYNC),
    ("_memcpy", Category.COPY),
    ("_memset", Category.SET),
    ("_kernel", Category.KERNEL),
)

# The exporter before Kineto wrote no category: the "process" identifies where an event ran.
_PLACES: dict[str, Category] = {"CPU functions": Category.CPU_OP, "CUDA functions": Category.KERNEL}

BOOKKEEPING = frozenset({"trace", "cpu_instant_event", "external_correlation", "cuda_event"})
"""Categories without work; omitted without a note."""


NAMED_RANGES = ("ProfilerStep", "enumerate(DataLoader)#", "Optimizer.step#", "Optimizer.zero_grad#")
"""Prefixes of ranges that PyTorch itself names: operators in profilers of 2020 and 2021, annotations since."""


def category_of(written: str, place: int | str) -> Category | None:
    """The kind of a category's text in any spelling; None if unknown.

    ``place`` is the event's process field, which decides if the file contains no category.
    """
    name = written.lower()
    if not name:
        return _PLACES.get(place) if isinstance(place, str) else None
    known = _NAMES.get(name)
    if known is not None:
        return known
    return next((kind for suffix, kind in _SUFFIXES if name.endswith(suffix)), None)
