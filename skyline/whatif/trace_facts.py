"""Facts about its script that a recording shows indirectly: loaders, optimizers, number formats."""

from __future__ import annotations

import re

import numpy as np

from skyline.graph.task import WorkClass, work_class
from skyline.trace.kineto.category import Category
from skyline.whatif.recording import Recording

_STEP = re.compile(r"Optimizer\.step#(\w+)\.step")
_NARROW_KERNEL = re.compile(
    r"(?<![a-z])(bf16|fp16|f16|h?884|half|bfloat16)(?![0-9])|16816|h1688", re.IGNORECASE
)


def optimizer_names(recording: Recording) -> tuple[str, ...]:
    """The classes of the optimizers that stepped, in the order of their first step."""
    found = (_STEP.match(name) for name in _names(recording, Category.ANNOTATION, Category.CPU_OP))
    return tuple(dict.fromkeys(match[1] for match in found if match))


def has_loader_workers(recording: Recording) -> bool:
    """True if a ``DataLoader`` with worker processes delivered batches."""
    return any(
        "_MultiProcessingDataLoaderIter" in name
        for name in _names(recording, Category.ANNOTATION, Category.CPU_OP)
    )


def computes_in_16_bits(recording: Recording) -> bool:
    """True if matrix products and their like had inputs of 16 bits, by recorded types or by the kernels' names."""
    trace = recording.trace
    heavy = np.array([work_class(text) is not WorkClass.OTHER for text in trace.strings])[trace.name]
    types: list[int] = np.unique(trace.types[heavy & (trace.category == Category.CPU_OP)]).tolist()
    kernels: list[int] = np.unique(trace.name[heavy & (trace.category == Category.KERNEL)]).tolist()
    return any("BFloat16" in trace.strings[row] or "Half" in trace.strings[row] for row in types) or any(
        _NARROW_KERNEL.search(trace.strings[row]) is not None for row in kernels
    )


def device_name(recording: Recording) -> str:
    """Of the GPU that the recorded work ran on; ``CPU``, and where the trace does not name the GPU ``GPU``."""
    trace = recording.trace
    if not recording.on_gpu:
        return "CPU"
    used = set(np.unique(trace.device[trace.of(Category.KERNEL, Category.COPY)]).tolist())
    names = dict.fromkeys(one.name for one in trace.devices if one.name and one.index in used)
    return ", ".join(names) or {"amd": "AMD GPU", "nvidia": "NVIDIA GPU"}.get(trace.vendor, "GPU")


def compute_capability(recording: Recording) -> tuple[int, int]:
    """Of the weakest NVIDIA GPU in use; (0, 0) where the trace does not say."""
    trace = recording.trace
    used = set(np.unique(trace.device[trace.of(Category.KERNEL)]).tolist())
    known = [(one.compute_major, one.compute_minor) for one in trace.devices if one.index in used]
    return min((one for one in known if one[0] > 0), default=(0, 0)) if trace.vendor != "amd" else (0, 0)


def peak_bytes(recording: Recording) -> int | None:
    """The most that the allocator of the device had given out, where the profiler recorded memory."""
    allocations = recording.trace.allocations
    here = (allocations.device >= 0) == recording.on_gpu
    level = allocations.allocated_bytes[here]
    return int(level.max()) if len(level) and level.max() > 0 else None


def _names(recording: Recording, *categories: Category) -> list[str]:
    trace = recording.trace
    rows = np.isin(trace.category, [int(one) for one in categories])
    used: list[int] = np.unique(trace.name[rows]).tolist()
    return [trace.strings[row] for row in used]
