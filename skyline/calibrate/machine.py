"""Description of the measured machine, detailed enough to predict for it elsewhere."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import psutil

from skyline.lazy_dataclass import dataclass

TIMING = {"cpu": 1, "cuda": 3}
"""Version of the timing method; it changes with the method, because times of two methods are not comparable.

On GPUs, 2: launches wait in the queue until a block of them is complete, so that the time of small kernels is not
hidden by the host.
"""
_PREFERRED_FLAGS = (("avx512f", 32), ("avx2", 16), ("avx", 8), ("asimd", 8))
"""Instruction sets, and the float32 operations per clock cycle of one such unit of a core."""
_UNITS = 2
_ASSUMED_MHZ = 2500
_ASSUMED_CACHE = 8 << 20
_LEAST_MHZ = 500


@dataclass(frozen=True, slots=True)
class CalibratedDevice:
    """A processor or GPU. ``name`` is the vendor's name, ``slug`` the name that the user types.

    ``gflops`` is the peak of its vector units at the nominal clock, 0 if unknown. ``cache_bytes`` is the largest cache
    shared by its cores. ``timing`` is the version of the timing method (``TIMING``).
    """

    name: str
    device: str
    threads: int
    memory_bytes: int
    clock_mhz: int = 0
    gflops: float = 0.0
    cache_bytes: int = 0
    torch: str = ""
    multiprocessors: int = 0
    capability: tuple[int, int] = (0, 0)
    timing: int = 0

    @property
    def slug(self) -> str:
        """The name in lower case with hyphens; for a processor, with the number of threads."""
        short = re.sub(r"\((?:r|tm)\)|\b(?:cpu|processor|nvidia)\b|@.*", " ", self.name.lower())
        words = re.findall(r"[a-z0-9]+", short)
        return "-".join([*words, f"{self.threads}t"] if self.device == "cpu" else words) or "unnamed"


def processor(threads: int = 0, torch: str = "") -> CalibratedDevice:
    """The processor of this machine with PyTorch's number of threads, by default the number of cores."""
    described = _described()
    flags = described.get("flags", described.get("features", "")).split()
    per_clock = next((value for flag, value in _PREFERRED_FLAGS if flag in flags), 8) * _UNITS
    count = threads or psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    clock_mhz = _clock(described)
    return CalibratedDevice(
        described.get("model name") or platform.processor() or platform.machine(),
        "cpu",
        count,
        psutil.virtual_memory().total,
        clock_mhz,
        count * clock_mhz * per_clock / 1e3,
        _cache(described),
        torch,
    )


def _described() -> dict[str, str]:
    """Linux's entries about the first processor; empty elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return {}
    first = text.split("\n\n", 1)[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _clock(described: dict[str, str]) -> int:
    try:
        return max(_LEAST_MHZ, round(float(described["cpu mhz"])))
    except (KeyError, ValueError):
        pass
    try:
        frequency = psutil.cpu_freq()
    except (OSError, NotImplementedError):
        frequency = None
    stated = round(frequency.max or frequency.current) if frequency is not None else 0
    return stated if stated >= _LEAST_MHZ else _ASSUMED_MHZ


def _cache(described: dict[str, str]) -> int:
    largest = 0
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            text = path.read_text("ascii").strip()
            largest = max(
                largest, int(text.rstrip("KMG")) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1], 1)
            )
        except (OSError, ValueError):
            continue
    if largest:
        return largest
    match = re.match(r"(\d+) KB", described.get("cache size", ""))
    return int(match[1]) << 10 if match else _ASSUMED_CACHE
