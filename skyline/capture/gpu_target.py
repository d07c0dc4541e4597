"""The GPU that a script is traced for, of which there need not be one here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """What a script can ask its GPU about: name, memory, compute capability and number of multiprocessors.

    ``processor``: it is none, but a processor that stands in its place. The script sees a GPU, and PyTorch chooses
    what it would choose on the processor.
    """

    name: str
    memory_bytes: int
    compute_capability: tuple[int, int]
    multiprocessors: int
    processor: bool = False
