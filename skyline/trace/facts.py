"""What the run told about itself beside its timings: optimizers, loaders, batches, memory, machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

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
    prefetch_factor: int | None = None
    """Batches that each worker fetches ahead; None without workers."""


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


@dataclass(frozen=True, slots=True)
class TorchSettings:
    """PyTorch's global switches as they stood in the recorded iterations; None where they could not be read."""

    matmul_precision: Literal["highest", "high", "medium"] | None = None
    """What float32 matrix products may be computed in: ``high`` and ``medium`` allow TF32."""
    cudnn_tf32: bool | None = None
    cudnn_benchmark: bool | None = None
    deterministic: bool | None = None
    autocast: str | None = None
    """The number format of ``torch.autocast`` around the forward pass (``bfloat16``, …), empty without it.

    As seen around calls of modules in training mode during the warm-up.
    """
    compute_capability: tuple[int, int] | None = None
    """Of the NVIDIA GPU in use."""
    interop_threads: int | None = None


@dataclass(frozen=True, slots=True)
class ModuleFact:
    """One module of a model that trains, as it stood in the recorded iterations.

    ``path`` is spelled as in ``Trace.modules``: the class of the root, then its name as ``named_modules()`` has it
    (``ResNet``, ``ResNet.layer1.0.conv1``; inside a wrapper ``DistributedDataParallel.module.layer1``).
    ``class_name`` is the bare name of its class and ``library`` whether PyTorch defines that. ``parameter_count``
    counts its own parameters, without those of modules inside, and ``trainable`` is whether any of them takes a
    gradient. ``options`` are numbers and switches that its class was made with (``in_features``,
    ``num_embeddings``, ``sparse``, ``kernel_size``, ``p``, …); of other classes than PyTorch's a few plain attributes.
    ``kept_bytes`` is what its forward pass, all inside included, keeps for the backward pass: None where it was not
    called or cannot be told apart (two models of one class train). Under a checkpoint it is what is kept with it.
    """

    path: str
    class_name: str
    library: bool
    parameter_count: int
    trainable: bool
    options: dict[str, int | float | bool | str | tuple[int, ...] | None]
    calls_per_iteration: float = 1.0
    """Forward passes, without those that a checkpoint repeats: 0 for one that only holds parameters or modules, and
    1 where calls cannot be seen, in compiled code."""
    channels_last: bool | None = None
    """Whether its weight of four dimensions lies in that format; None without one."""
    checkpointed: bool = False
    created_line: CodeLine | None = None
    """Where the object was made, where the person's own code does it: not what a library's container or factory
    makes, nor copies."""
    class_line: CodeLine | None = None
    """Where its ``forward`` is defined, where that is the person's own code."""
    call_line: CodeLine | None = None
    """The line of the person's code that calls it, one in training before others; None where a library's calls it."""
    kept_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ParallelFact:
    """How the gradients of replicas are joined: ``DistributedDataParallel`` and its options."""

    name: str
    backend: str
    world_size: int
    bucket_cap_mb: float | None
    gradient_as_bucket_view: bool | None
    static_graph: bool | None
    find_unused_parameters: bool | None
    comm_hook: str = ""
    """The registered communication hook, empty for none."""
    gradient_bytes: int = 0
    """What one step has to exchange."""
    created_line: CodeLine | None = None


@dataclass(frozen=True, slots=True)
class CallFact:
    """A call of the person's code that a what-if may be about, with where it stands and how often it ran.

    Only what the person's own code calls is told, not what a framework's loop does on its behalf. ``name`` is what
    was called, and ``options`` what it was given that matters:

    - ``zero_grad`` (``set_to_none``, as it acts), ``backward``, ``clip_grad_norm_``, ``checkpoint``, ``cuda graph``.
    - ``to`` and ``cuda``: a tensor is asked onto a device. ``device`` is where it was, ``copies`` whether that took
      a copy, ``non_blocking`` as given.
    - Reads of a tensor's numbers: ``item``, ``tolist``, ``cpu``, ``numpy``, ``print``, ``format``, ``float``,
      ``int``, ``bool``, and ``read`` for others, in which ``via`` is the library function that read it on behalf of
      the line. ``device`` is the tensor's; only on a GPU the script waits for it.
    - ``eval forward``: a forward pass that got no gradient. ``module`` is its path, ``grad_enabled`` whether its
      operators were recorded all the same, ``training`` the mode of the module where known, ``inference_mode``
      likewise.
    - ``compile``: ``torch.compile`` with ``mode``, ``backend``, ``fullgraph``, ``dynamic`` where given. It is
      called once, outside of the iterations: ``per_iteration`` is 0.
    - ``graph break``: a place at which ``torch.compile`` left its graph, and its ``reason``; ``per_iteration`` is 0,
      for how often it comes by there is not told.

    ``line`` is None where it is not known: a symbol such as ``if loss:`` makes no call that is seen in compiled code.
    """

    name: str
    per_iteration: float
    line: CodeLine | None = None
    options: dict[str, int | float | bool | str | None] = field(
        default_factory=dict[str, "int | float | bool | str | None"]
    )
