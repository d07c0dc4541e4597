"""Iterations timed without any recording, whole and by part."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BareTimes:
    """Bare iterations.

    ``steps_ms`` are whole iterations, in order. The other tuples have the same length and hold the parts that can be
    told apart without a profiler: time inside the data loader, inside ``backward()`` and inside optimizer steps. The
    rest of each iteration is forward work and everything else. ``memory_bytes`` is the memory in use at the end of
    each iteration: of tensors on a GPU, of the whole process on a CPU; empty where that is not known.

    On a GPU an iteration lasts from the end of one iteration on the device to the end of the next, because the script
    launches ahead of the device. The parts are times of the host, during the iteration or ahead of it. Their sum may
    exceed a single iteration, and the rest is no forward work where the host only waits.
    """

    steps_ms: tuple[float, ...]
    data_ms: tuple[float, ...]
    backward_ms: tuple[float, ...]
    optimizer_ms: tuple[float, ...]
    memory_bytes: tuple[int, ...] = ()
