"""Facts of a run besides its timings: optimizers, loaders, batches, memory, machine, energy, effects on files."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from skyline.lazy_dataclass import dataclass
from skyline.trace.record import CodeLine


@dataclass(frozen=True, slots=True)
class Device:
    """The device that the script computes on. ``kind`` is ``cpu`` or ``cuda``.

    ``host`` is the machine as named after ``skyline profile --host``; empty without that option.
    """

    name: str
    kind: str
    host: str = ""


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
    """Instruction sets that determine the fast number formats, such as ``avx512_bf16`` or ``amx_bf16``."""
    cache_bytes: int = 0
    """The part of the last-level cache that belongs to the cores of the script; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class OptimizerFact:
    """An optimizer that made steps. ``options`` holds ``fused``, ``foreach`` and similar as passed (None: default)."""

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
    """Number of batches that each worker prefetches. None without workers."""


@dataclass(frozen=True, slots=True)
class BatchFact:
    """The observed batch: leading dimensions of the tensors that entered the root module."""

    leading_dimensions: tuple[int, ...]
    samples_per_iteration: int | None
    """Batch size times the micro-batches per optimizer step, if both were observed."""
    micro_batches: int = 1


@dataclass(frozen=True, slots=True)
class LabelFact:
    """Class labels seen in the warm-up: ``below[i]`` of ``counted`` labels are less than ``classes[i]``."""

    counted: int
    classes: tuple[int, ...]
    below: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemoryFact:
    """Live tensor bytes at an iteration boundary, by owner, on the script's device."""

    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    other_bytes: int
    """Bytes of buffers, of datasets held as tensors, and of all other live tensors."""

    @property
    def total_bytes(self) -> int:
        """Bytes that stay alive between iterations."""
        return self.parameter_bytes + self.gradient_bytes + self.optimizer_bytes + self.other_bytes


@dataclass(frozen=True, slots=True)
class DeviceMemoryFact:
    """GPU memory besides live tensors at the end of the recorded iterations, in bytes.

    ``reserved_bytes`` is the maximum that the caching allocator took from the device. ``context_bytes`` is memory of
    this process outside the allocator, ``other_process_bytes`` memory of other processes.
    """

    total_bytes: int
    free_bytes: int
    allocated_peak_bytes: int
    reserved_bytes: int
    context_bytes: int
    other_process_bytes: int


@dataclass(frozen=True, slots=True)
class TorchSettings:
    """PyTorch's global settings during the recorded iterations; None for an unreadable setting."""

    matmul_precision: Literal["highest", "high", "medium"] | None = None
    """Allowed precision of float32 matrix products: ``high`` and ``medium`` allow TF32."""
    cudnn_tf32: bool | None = None
    cudnn_benchmark: bool | None = None
    deterministic: bool | None = None
    autocast: str | None = None
    """The number format of ``torch.autocast`` around the forward pass (``bfloat16``, …); empty without autocast.

    Observed around calls of modules in training mode during the warm-up.
    """
    compute_capability: tuple[int, int] | None = None
    """Compute capability of the NVIDIA GPU in use."""


@dataclass(frozen=True, slots=True)
class ModuleFact:
    """One module of a training model, in its state during the recorded iterations.

    ``path`` is written as in ``Trace.modules``: the class of the root, then the name from ``named_modules()``
    (``ResNet``, ``ResNet.layer1.0.conv1``; inside a wrapper ``DistributedDataParallel.module.layer1``).
    ``class_name`` is the unqualified class name; ``library`` is true if PyTorch defines the class. ``parameter_count``
    counts the module's own parameters, without submodules; ``trainable`` is true if any of them has a gradient.
    ``options`` are constructor numbers and switches of PyTorch classes (``in_features``, ``num_embeddings``,
    ``sparse``, ``kernel_size``, ``p``, …); of other classes, some plain attributes. ``kept_bytes`` is the memory that
    the forward pass of the module, with its submodules, keeps for the backward pass. It is None if the module was not
    called or is ambiguous (two models of one class train). Under a checkpoint it is the memory kept with checkpointing.
    """

    path: str
    class_name: str
    library: bool
    parameter_count: int
    trainable: bool
    options: dict[str, int | float | bool | str | tuple[int, ...] | None]
    calls_per_iteration: float = 1.0
    """Forward passes per iteration, without repetitions by a checkpoint: 0 for a mere container, 1 in
    compiled code, where calls are not observable."""
    channels_last: bool | None = None
    """True if the module's four-dimensional weight has that format; None without such a weight."""
    checkpointed: bool = False
    created_line: CodeLine | None = None
    """The line of the user's code that created the module; None for copies and for modules that a library's container
    or factory created."""
    class_line: CodeLine | None = None
    """The line that defines its ``forward``, if in the user's code."""
    call_line: CodeLine | None = None
    """The line of the user's code that calls it, preferably in training; None if a library calls it."""
    kept_bytes: int | None = None

    @property
    def lstm_weights(self) -> tuple[tuple[int, int], ...]:
        """The rows and columns of the weights of PyTorch's LSTM; none for others, for unknown sizes and projections."""
        inputs, hidden, layers = (
            self.options.get(name) for name in ("input_size", "hidden_size", "num_layers")
        )
        if self.class_name != "LSTM" or not self.library or self.options.get("proj_size"):
            return ()
        if not (isinstance(inputs, int) and isinstance(hidden, int)):
            return ()
        directions = 2 if self.options.get("bidirectional") else 1
        found: list[tuple[int, int]] = []
        for layer in range(layers if isinstance(layers, int) else 1):
            given = inputs if layer == 0 else hidden * directions
            found += [(4 * hidden, given), (4 * hidden, hidden)] * directions
        return tuple(found)


@dataclass(frozen=True, slots=True)
class ParallelFact:
    """The synchronisation of gradients between replicas: ``DistributedDataParallel`` and its options."""

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
    """Bytes exchanged per step."""
    created_line: CodeLine | None = None


@dataclass(frozen=True, slots=True)
class CallFact:
    """A call in the user's code that a what-if may change, with its line and how often it ran.

    Only calls by the user's own code are included, not calls by a framework's loop. ``name`` is the called function;
    ``options`` holds the relevant arguments:

    - ``zero_grad`` (``set_to_none``, as effective), ``backward``, ``clip_grad_norm_``, ``checkpoint``, ``cuda graph``.
    - ``to`` and ``cuda``: moving a tensor to a device. ``device`` is the device before, ``copies`` is true if data were
      copied, ``non_blocking`` is the argument.
    - Reads of a tensor's values: ``item``, ``tolist``, ``cpu``, ``numpy``, ``print``, ``format``, ``float``, ``int``,
      ``bool``, and ``read`` for others, with ``via`` as the library function that read for the line. ``device`` is the
      tensor's device; the script waits only for a GPU.
    - ``eval forward``: a forward pass without a backward pass. ``module`` is its path, ``grad_enabled`` whether
      autograd recorded its operators, ``training`` the mode of the module if known, ``inference_mode`` likewise.
      ``trained_here`` is ``line`` or ``function`` where passes that train call modules from the same one.
    - ``compile``: ``torch.compile`` with ``mode``, ``backend``, ``fullgraph``, ``dynamic`` if given. It is called once,
      outside the iterations: ``per_iteration`` is 0.
    - ``graph break``: a place where ``torch.compile`` left its graph, and the ``reason``; ``per_iteration`` is 0,
      because the number of executions is unknown.

    ``line`` is None if unknown: in compiled code, an expression such as ``if loss:`` makes no observable call.
    """

    name: str
    per_iteration: float
    line: CodeLine | None = None
    options: dict[str, int | float | bool | str | None] = field(
        default_factory=dict[str, "int | float | bool | str | None"]
    )


MODEL_CALL = "model call"
"""The boundary of a script that does not train."""
FRAMEWORKS = (
    "Hugging Face Trainer",
    "PyTorch Lightning",
    "Lightning Fabric",
    "Accelerate",
    "fastai",
    "PyTorch Ignite",
    "Keras",
)
"""Styles of scripts in which a framework runs the loop or a part of it."""


@dataclass(frozen=True, slots=True)
class IterationFact:
    """The boundaries of a script's iteration, and its contents.

    ``meaning`` is a sentence for the user, such as ``one step of Adam (train.py line 40), with 4 backward passes
    (gradient accumulation)``. ``boundary`` is ``optimizer step``, ``backward pass`` or, in a script that does not
    train, ``model call``. The counts are means over the measured iterations.
    """

    meaning: str
    boundary: str
    optimizer_steps: float
    backward_passes: float
    batches: float
    styles: tuple[str, ...] = ()
    """Recognised features: ``gradient accumulation``, ``closure``, ``GradScaler``, ``torch.compile``,
    ``DistributedDataParallel``, ``Hugging Face Trainer``, ``PyTorch Lightning``, ``several optimizers``, …"""
    rank: int = 0
    world_size: int = 1

    @property
    def trains(self) -> bool:
        """False if an iteration is one call of a model."""
        return self.boundary != MODEL_CALL


_FULL = 0.9
"""Share of all cores in use; below it, other programs ran on idle cores."""
_NOTICED_CORES = 0.5
"""Number of cores. An editor with its servers takes some tenths of a core. Above this limit, timed iterations
had to wait for cores."""


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """Average numbers of busy cores during timing, of the script's processes and of all others, and the core count.

    ``further_cores`` is the part of ``own_cores`` of the script's further processes, such as the workers of a loader.
    """

    own_cores: float
    others_cores: float
    cores: int
    further_cores: float | None = None

    @property
    def busy(self) -> bool:
        """True if other programs took processor time that the script would have used."""
        full = self.own_cores + self.others_cores >= _FULL * self.cores
        return full and self.others_cores >= _NOTICED_CORES


@dataclass(frozen=True, slots=True)
class PowerFact:
    """Energy of unrecorded iterations, including everything else that the counted hardware did meanwhile.

    ``of`` names the hardware: the board of a GPU (``NVML``), or the processors without their memory (``RAPL``).
    ``joules`` is the mean energy of one iteration over ``window_s``; ``mean_watts`` is the mean power in that window.
    """

    source: Literal["NVML", "RAPL"]
    of: str
    joules: float
    mean_watts: float
    iterations: int
    window_s: float


@dataclass(frozen=True, slots=True)
class SideEffect:
    """One kind of effect on one target.

    ``kind`` is ``file``, ``folder``, ``removal``, ``tracker`` (W&B and similar), ``download``, ``network`` (a host that
    was looked up), ``program`` (a started program), ``profiler`` (PyTorch's, used by the script) or ``evaluation``.
    ``outcome`` is ``redirected`` (to a temporary folder, now deleted), ``held back`` (not executed, but reported to the
    script as successful), ``refused`` (not executed, and the script received an error), ``allowed`` (executed) or
    ``replayed`` (executed once, its result reused). For frequent effects, ``count`` is a lower bound within a factor of
    two.
    """

    kind: str
    target: str
    outcome: str
    count: int = 1
    line: CodeLine | None = None


@dataclass(frozen=True, slots=True)
class Protection:
    """The mechanism that protected the user's files from the run's writes.

    ``kernel``: Landlock, in addition to the interception of Python's calls. ``interception only``: native code and
    programs started by the script could write. ``off``: the user allowed everything. ``reason`` explains why the
    mechanism is not ``kernel``, or what this kernel does not cover. ``network`` is the reach of the run's Python code:
    ``open`` (every host) or ``loopback`` (this machine only).
    """

    state: Literal["kernel", "interception only", "off"]
    reason: str = ""
    network: Literal["open", "loopback"] = "open"


@dataclass(frozen=True, slots=True)
class TimedRead:
    """The share of one line in the time to read a batch, between two moments of the trace's nominal time.

    ``took_us`` is the median time of the loader's batches of this size, read without tracing in the script's own
    process, times the share of the samples of the thread on that line. The first read of a batch has the bytes of its
    tensors as ``tensor_bytes``.
    """

    start_us: float
    end_us: float
    took_us: float
    tensor_bytes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RepeatedRead:
    """A read by a loader between two moments of the trace's nominal time.

    ``times`` is the number of delivered samples per sample read.
    """

    start_us: float
    end_us: float
    times: float
