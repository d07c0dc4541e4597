"""Types of the child's messages: the JSON events of the channel are converted to these on receipt."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import Environment, LabelFact
from skyline.trace.observed_training import ObservedSave
from skyline.trace.record import CodeLine
from skyline.trace.tensor_values import TensorValues


@dataclass(frozen=True, slots=True)
class StepRow:
    """One bare iteration: its wall time, the times of its parts, and counts of its calls."""

    step_ms: float
    data_ms: float
    backward_ms: float
    optimizer_ms: float
    fetches: int
    backward_calls: int
    optimizer_steps: int = 1
    memory_bytes: int = 0
    """Memory in use at its end; 0 if unknown."""
    host_ms: float = 0.0
    """Time of the script's thread, without waiting for the device at the end; 0 if unknown."""
    saving_ms: float = 0.0
    logging_ms: float = 0.0
    evaluation_ms: float = 0.0
    rollout_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class EvaluationSeen:
    """A module's forward pass that was replayed ``count`` times while the script warmed up."""

    module: str
    count: int
    line: CodeLine | None


@dataclass(frozen=True, slots=True)
class ModelSeen:
    """The model whose calls are the iterations of a script that does not train, and the line of its first call."""

    name: str
    line: CodeLine | None


@dataclass(frozen=True, slots=True)
class OptimizerSeen:
    """An optimizer that stepped ``steps`` times until the end of warm-up."""

    name: str
    steps: int
    tensor_count: int
    parameter_count: int
    state_bytes: int
    options: dict[str, bool | None]
    step_line: CodeLine | None
    created_line: CodeLine | None
    skipped: int = 0
    """Steps that a gradient scaler skipped."""
    steps_lately: int = 0
    """Steps in the last whole iteration of the warm-up; the first one may have had more or fewer."""


@dataclass(frozen=True, slots=True)
class LoaderSeen:
    """A data loader that gave ``fetches`` batches until the end of warm-up."""

    batch_size: int | None
    num_workers: int
    dataset_size: int | None
    fetches: int
    pin_memory: bool
    persistent_workers: bool
    created_line: CodeLine | None
    prefetch_factor: int | None = None
    iterations: int = 0
    """Training iterations in which it gave a batch."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts that the run showed; ``leading`` are leading dimensions of batches and module inputs.

    Leading dimensions are the first two of each tensor; ``first_dimensions`` has only the first ones, and
    ``fed_dimensions`` the first dimensions of tensors that were passed to a model as its first argument.
    """

    optimizers: tuple[OptimizerSeen, ...]
    loaders: tuple[LoaderSeen, ...]
    leading: tuple[int, ...]
    environment: Environment
    modules: tuple[str, ...] = ()
    """Real paths of the user's modules that were imported."""
    styles: tuple[str, ...] = ()
    passes_per_update: int = 1
    """Backward passes of one update that the script writes by hand."""
    cut_at: CodeLine | None = None
    """The backward pass that ends a measured iteration, if the script's own iteration is too long; None otherwise."""
    rank: int = 0
    world_size: int = 1
    evaluations: tuple[EvaluationSeen, ...] = ()
    large_block_us_per_mb: float = 0.0
    labels: LabelFact | None = None
    first_dimensions: tuple[int, ...] = ()
    fed_dimensions: tuple[int, ...] = ()
    fed_second_dimensions: tuple[int, ...] = ()
    settings_files: tuple[str, ...] = ()
    """Real paths of settings files that the script opened, in the order of their last opening."""
    model: ModelSeen | None = None
    """The model of a script that does not train; None if iterations are training steps."""
    device_identities: tuple[str, ...] = ()
    """The driver's identifiers (``GPU-…``) of the GPUs in the run; empty if unknown."""

    @property
    def batch_sizes_seen(self) -> tuple[int, ...]:
        """Every number that may be the batch size, each once."""
        sizes = [loader.batch_size for loader in self.loaders if loader.batch_size]
        return tuple(dict.fromkeys((*sizes, *self.leading)))


@dataclass(frozen=True, slots=True)
class Ready:
    """The warm-up is over after ``warmup`` iterations; the script waits at an iteration boundary."""

    warmup: int
    loop: CodeLine | None
    """The innermost frame of the user's code that persists across iterations, and its current line."""
    facts: RunFacts
    script_s: float = 0.0
    """Run time of the script until then."""
    warmup_reason: str = ""
    last: StepRow | None = None
    """The last iteration of the warm-up, if its time is known."""
    settled: tuple[StepRow, ...] = ()
    """The iterations whose steady times ended the warm-up; empty if its length was given."""


@dataclass(frozen=True, slots=True)
class BareSteps:
    """Bare iterations, in order, and the files saved since the last ones."""

    rows: tuple[StepRow, ...]
    saves: tuple[ObservedSave, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """The script ended: its number of iterations, and counts of training calls until then."""

    boundaries: int
    optimizers: int
    backward_calls: int
    fetches: int
    modules: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    """Processes that the script was seen to start."""
    saves: tuple[ObservedSave, ...] = ()
    values: TensorValues | None = None
    """Values from the iterations until its end, if it ended while values of its tensors were read."""
    rows: tuple[StepRow, ...] = ()
    """The bare iterations of the turn in which it ended."""
    called_modules: bool = False
    """True if a module was called, in training or otherwise."""

    @property
    def only_evaluated(self) -> bool:
        """True if the script ran models and trained none."""
        return self.called_modules and not self.boundaries and not self.backward_calls


@dataclass(frozen=True, slots=True)
class Failed:
    """The script raised an error or exited by itself. A ``hint`` means that it does something Skyline cannot follow.

    ``status`` is its exit status, None if it raised an error; ``boundaries`` is its number of iterations by then.
    """

    message: str
    traceback: str
    file: str
    line: int
    modules: tuple[str, ...] = ()
    hint: str = ""
    status: int | None = None
    boundaries: int = 0
