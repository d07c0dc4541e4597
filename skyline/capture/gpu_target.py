"""The GPU that a script is traced for, of which there need not be one here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """What a script can ask its GPU about: name, memory, compute capability and number of multiprocessors."""

    name: str
    memory_bytes: int
    compute_capability: tuple[int, int]
    multiprocessors: int
