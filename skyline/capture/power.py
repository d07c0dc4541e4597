"""Measures the energy of iterations with counters of the hardware: NVIDIA's GPUs, and processors through powercap.

Nothing is estimated: without a readable counter there is no figure. NVIDIA's library is called through nvidia-ml-py,
which the extra ``power`` installs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib import import_module
from math import ceil
from pathlib import Path
from typing import Any, Literal

from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import PowerFact

_WINDOW_S = 1.5
"""Counters are updated every 20 to 100 ms: that is a few per cent of this window."""
_POWERCAP = Path("/sys/class/powercap")


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of energy; ``joules_between`` is the energy between two of its readings."""

    source: Literal["NVML", "RAPL"]
    of: str
    read: Callable[[], tuple[float, ...]]
    joules_between: Callable[[tuple[float, ...], tuple[float, ...]], float]


def measured(counter: Counter, iteration_ms: float, longest_s: float, run: Callable[[int], int]) -> PowerFact:
    """The energy of iterations that ``run`` does for 1.5 s, or at most ``longest_s``, between two readings.

    ``run`` takes the number of iterations wanted and returns the number done.
    """
    wanted = max(1, ceil(min(_WINDOW_S, longest_s) * 1e3 / max(iteration_ms, 0.01)))
    before, began = counter.read(), time.perf_counter()
    done = run(wanted)
    after, ended = counter.read(), time.perf_counter()
    joules, window_s = counter.joules_between(before, after), ended - began
    return PowerFact(counter.source, counter.of, joules / done, joules / window_s, done, window_s)


def counter_of(kind: str, name: str, identities: tuple[str, ...] = ()) -> Counter | None:
    """The counter of the device that the script computes on; None if there is no readable one.

    ``identities`` are the identifiers (``GPU-…``) of all GPUs that the script computes on.
    """
    if kind == "cpu":
        return processor_counter()
    return gpu_counter(name, identities) if kind == "cuda" else None


def processor_counter(root: Path = _POWERCAP) -> Counter | None:
    """The counter of all processor packages together; the kernel lets only some users read it."""
    zones = [zone for zone in sorted(root.glob("*-rapl:*")) if zone.name.count(":") == 1]
    zones = [zone for zone in zones if _text(zone / "name").startswith("package")]
    ranges = [_text(zone / "max_energy_range_uj") for zone in zones]

    def read() -> tuple[float, ...]:
        return tuple(float((zone / "energy_uj").read_text()) for zone in zones)

    def joules_between(before: tuple[float, ...], after: tuple[float, ...]) -> float:
        # Each counter wraps to 0 at the end of its range.
        spent = (
            (last - first) % (float(most) + 1) if last < first else last - first
            for first, last, most in zip(before, after, ranges, strict=True)
        )
        return sum(spent) / 1e6

    try:
        if not zones or not all(text.isdigit() for text in ranges):
            return None
        read()
    except (OSError, ValueError):
        return None
    count = len(zones)
    return Counter("RAPL", "the processor" if count == 1 else f"{count} processors", read, joules_between)


def gpu_counter(name: str, identities: tuple[str, ...] = ()) -> Counter | None:
    """The counter of the boards of NVIDIA GPUs called ``name``, from Volta on; None for a part (MIG) of a board."""
    if _is_part(name) or any(map(_is_part, identities)):
        return None
    try:
        nvml: Any = import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
        if identities:
            handles = [nvml.nvmlDeviceGetHandleByUUID(identity) for identity in identities]
        else:
            handles = [_handle(nvml, name)]
        for handle in handles:
            if handle is None or nvml.nvmlDeviceGetTotalEnergyConsumption(handle) is None:
                return None
    except nvml.NVMLError:
        return None

    def read() -> tuple[float, ...]:
        return tuple(nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3 for handle in handles)

    def joules_between(before: tuple[float, ...], after: tuple[float, ...]) -> float:
        return sum(after) - sum(before)

    of = f"the board of the {name}" if len(handles) == 1 else f"{len(handles)} boards of the {name}"
    return Counter("NVML", of, read, joules_between)


def gpu_names() -> tuple[str, ...]:
    """Distinct names of the NVIDIA boards that the driver reports."""
    try:
        nvml: Any = import_module("pynvml")
    except ImportError:
        return ()
    try:
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        return tuple(dict.fromkeys(_decoded(nvml.nvmlDeviceGetName(handle)) for handle in handles))
    except nvml.NVMLError:
        return ()


def _is_part(name: str) -> bool:
    """True if this names an instance of a divided GPU (MIG): the counter of a board includes all its instances."""
    return "MIG" in name.replace("-", " ").split()


def _handle(nvml: Any, name: str) -> Any:
    """The GPU that a script sees first, for a PyTorch that does not report its identifier; None if ambiguous.

    If all boards have the same name, it is the first one in ``CUDA_VISIBLE_DEVICES``. CUDA numbers the fastest board
    first, unless it is set to the driver's order, so that a number is ambiguous if the boards differ.
    """
    count = nvml.nvmlDeviceGetCount()
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
    named = [handle for handle in handles if _decoded(nvml.nvmlDeviceGetName(handle)) == name]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    if visible.startswith("GPU-"):
        return nvml.nvmlDeviceGetHandleByUUID(visible)
    if _is_part(visible):
        return None
    as_the_driver = len(named) == count or os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if as_the_driver and named:
        index = int(visible) if visible.isdigit() else 0
        found = handles[index] if index < count else None
        return found if found in named else None
    return named[0] if len(named) == 1 else None


def _decoded(name: str | bytes) -> str:
    """The name as text; older versions of the library return bytes."""
    return name.decode() if isinstance(name, bytes) else name


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
