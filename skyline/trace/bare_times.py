"""Iteration times measured without any recording, in total and by part."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BareTimes:
    """Times of unrecorded iterations.

    ``steps_ms`` are whole iterations, in order. The other tuples have the same length and hold the parts that are
    measurable without a profiler: time inside the data loader, inside ``backward()`` and inside optimizer steps. The
    remainder of an iteration is the forward pass and everything else. ``memory_bytes`` is the memory in use at the end
    of each iteration: of tensors on a GPU, of the whole process on a CPU; empty if unknown.

    On a GPU an iteration lasts from the end of one iteration on the device to the end of the next, because the script
    launches ahead of the device. The parts are host times, during the iteration or ahead of it. Their sum may exceed a
    single iteration, and the remainder is not forward work if the host only waits.
    """

    steps_ms: tuple[float, ...]
    data_ms: tuple[float, ...]
    backward_ms: tuple[float, ...]
    optimizer_ms: tuple[float, ...]
    memory_bytes: tuple[int, ...] = ()
