"""Facts about the run, other than its timings."""

from __future__ import annotations

import os
import platform
import sys
import time

import torch
from torch.utils import _python_dispatch

from . import user_code, variant
from .observed_keras import name_of, parameters_of
from .recording import memory

# Bound at import, before the script can replace them.
_open, _listdir = open, os.listdir

_OPTIONS = ("fused", "foreach", "capturable", "differentiable")
_FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_tile", "bf16", "sve")


def environment(devices):
    """The machine and the software; ``cpu_features`` is empty if the kernel does not list them."""
    return {
        "device": {"name": devices.name() or _processor_name(), "kind": devices.kind},
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(terse=True),
        "cpu_count": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        "intraop_threads": torch.get_num_threads(),
        "memory_capacity_bytes": _capacity(devices),
        "cpu_features": _cpu_features(),
        "cache_bytes": cache_bytes(),
    }


def facts_of_run(observer, optimizers, devices):
    """Optimizers, loaders and leading dimensions at this moment."""
    return {
        "optimizers": [_optimizer(seen, optimizer) for seen, optimizer in optimizers],
        "loaders": observer.loaders.facts(observer.leading),
        "leading": observer.leading,
        "first_dimensions": observer.first_dimensions,
        "fed_dimensions": observer.fed_dimensions[0],
        "fed_second_dimensions": observer.fed_dimensions[1],
        "settings_files": variant.files(),
        "modules": user_code.imported_files(),
        "environment": environment(devices),
        "device_identities": devices.identities(),
        "large_block_us_per_mb": large_block_us_per_mb(devices.kind),
        "labels": observer.labels.fact(),
    }


def _optimizer(seen, optimizer):
    parameters = parameters_of(optimizer)
    with_gradient = [parameter for parameter in parameters if parameter.grad is not None] or parameters
    groups = getattr(optimizer, "param_groups", ())
    group = groups[0] if groups else {}
    return {
        "name": name_of(optimizer),
        "steps": seen.steps,
        "skipped": seen.skipped,
        "steps_lately": seen.steps_lately,
        "tensor_count": len(with_gradient),
        "parameter_count": sum(parameter.numel() for parameter in with_gradient),
        "state_bytes": memory.state_bytes(optimizer),
        "options": {name: group[name] for name in _OPTIONS if name in group},
        "step_line": seen.step_line,
        "created_line": seen.created,
    }


def _processor_name():
    for line in _cpuinfo():
        if line.lower().startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _capacity(devices):
    told = devices.room_and_capacity_bytes()
    if told is not None:
        return told[1]
    if not hasattr(os, "sysconf"):
        return 0
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # A container may have less than the machine.
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with _open(path) as limit:
                total = min(total, int(limit.read()))
        except (OSError, ValueError):
            pass
    return total


def _cpu_features():
    flags = next((line for line in _cpuinfo() if line.lower().startswith(("flags", "features"))), "")
    present = set(flags.partition(":")[2].split())
    return [feature for feature in _FEATURES if feature in present]


def _cpuinfo():
    if sys.platform != "linux":
        return []
    try:
        with _open("/proc/cpuinfo") as lines:
            return lines.read().splitlines()
    except OSError:
        return []


_CACHES = "/sys/devices/system/cpu/cpu0/cache"


def cache_bytes(folder=_CACHES):
    """Bytes of the last-level cache available to the cores of this process; 0 if the system does not report it."""
    largest, sharers = 0, 1
    try:
        for name in _listdir(folder):
            if name.startswith("index"):
                size, shared = (_text(os.path.join(folder, name, one)) for one in ("size", "shared_cpu_list"))
                found = int(size.rstrip("KMG")) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(size[-1:], 1)
                if found > largest:
                    largest, sharers = found, _count(shared)
    except (OSError, ValueError):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else sharers
    return largest * min(cores, sharers) // sharers


def _text(path):
    with _open(path) as file:
        return file.read().strip()


def _count(ranges):
    """The number of processors in a list such as ``0-3,8``."""
    ends = [part.partition("-") for part in ranges.split(",") if part]
    return max(1, sum(int(last or first) - int(first) + 1 for first, _, last in ends))


_BYTES = 40 << 20
"""More than the 32 MiB (2**25) up to which glibc keeps freed memory, whatever its settings."""
_TIMES = 3


def large_block_us_per_mb(device_kind):
    """The cost of allocating, touching and freeing a large block, minus that of writing to it again, in µs per MB.

    It uses PyTorch's allocator and threads, like the script. 0 if the allocator keeps the block, if nothing is computed
    (a traced script), and on a GPU, whose allocator keeps its blocks.
    """
    if device_kind != "cpu" or _python_dispatch._len_torch_dispatch_stack() > 0:
        return 0.0
    first, second = [], []
    for _ in range(_TIMES):
        began = time.perf_counter()
        block = torch.empty(_BYTES, dtype=torch.uint8, device="cpu").fill_(1)
        filled = time.perf_counter()
        block.fill_(1)
        again = time.perf_counter()
        del block
        first.append(filled - began + time.perf_counter() - again)
        second.append(again - filled)
    return max(0.0, min(first) - min(second)) * 1e12 / _BYTES
