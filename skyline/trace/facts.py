"""What the run told about itself beside its timings: optimizers, loaders, batches, memory, machine."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.trace.record import CodeLine


@dataclass(frozen=True, slots=True)
class Device:
    """Where the script computes. ``kind`` is ``cpu`` or ``cuda``."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine and the software of a run."""

    device: Device
    python: str
    torch: str
    platform: str
    cpu_count: int
    intraop_threads: int
    memory_capacity_bytes: int
    cpu_features: tuple[str, ...] = ()
    """Instruction sets that decide which number formats are fast, such as ``avx512_bf16`` or ``amx_bf16``."""


@dataclass(frozen=True, slots=True)
class OptimizerFact:
    """One optimizer that stepped; ``options`` has ``fused``, ``foreach`` and their like as given (None: default)."""

    name: str
    steps_per_iteration: int
    tensor_count: int
    parameter_count: int
    state_bytes: int
    options: dict[str, bool | None]
    step_line: CodeLine | None = None
    created_line: CodeLine | None = None


@dataclass(frozen=True, slots=True)
class LoaderFact:
    """One DataLoader that delivered batches during the measured iterations."""

    batch_size: int | None
    num_workers: int
    dataset_size: int | None
    fetches_per_iteration: float
    pin_memory: bool = False
    persistent_workers: bool = False
    created_line: CodeLine | None = None


@dataclass(frozen=True, slots=True)
class BatchFact:
    """What the run showed of its batch: leading dimensions of the tensors that entered the root module."""

    leading_dimensions: tuple[int, ...]
    samples_per_iteration: int | None
    """Batch size times the micro-batches of one optimizer step, where both could be seen."""
    micro_batches: int = 1


@dataclass(frozen=True, slots=True)
class MemoryFact:
    """Live tensor bytes at an iteration boundary, by owner, on the script's device."""

    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    other_bytes: int
    """Buffers, datasets held as tensors, and whatever else was alive."""

    @property
    def total_bytes(self) -> int:
        """Everything that lives from one iteration to the next."""
        return self.parameter_bytes + self.gradient_bytes + self.optimizer_bytes + self.other_bytes


@dataclass(frozen=True, slots=True)
class DeviceMemoryFact:
    """What a GPU's memory held at the end of the recorded iterations beside the live tensors, in bytes.

    ``reserved_bytes`` is what the caching allocator took from the device at most, ``context_bytes`` what this
    process holds outside the allocator, ``other_process_bytes`` what others hold.
    """

    total_bytes: int
    free_bytes: int
    allocated_peak_bytes: int
    reserved_bytes: int
    context_bytes: int
    other_process_bytes: int
