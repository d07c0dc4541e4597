"""Types of the child's messages: the JSON events of the channel are read into these at once."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import Environment, LabelFact
from skyline.trace.observed_training import ObservedSave
from skyline.trace.record import CodeLine
from skyline.trace.tensor_values import TensorValues


@dataclass(frozen=True, slots=True)
class StepRow:
    """One bare iteration: its wall time, the parts told apart, and what was counted in it."""

    step_ms: float
    data_ms: float
    backward_ms: float
    optimizer_ms: float
    fetches: int
    backward_calls: int
    optimizer_steps: int = 1
    memory_bytes: int = 0
    """In use at its end; 0 where that is not known."""
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
    """Steps that a gradient scaler left out."""
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

    Of a tensor these are the first two; ``first_dimensions`` are the first alone, and ``fed_dimensions`` the first of
    what entered a model as its first argument.
    """

    optimizers: tuple[OptimizerSeen, ...]
    loaders: tuple[LoaderSeen, ...]
    leading: tuple[int, ...]
    environment: Environment
    modules: tuple[str, ...] = ()
    """Real paths of the person's modules that were imported."""
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
    """Real paths of files of settings that the script opened, the last one opened last."""
    model: ModelSeen | None = None
    """Of a script that does not train; None where iterations are training steps."""
    device_identities: tuple[str, ...] = ()
    """The driver's identities of the run's GPUs (``GPU-…``); empty if unknown."""

    @property
    def batch_sizes_seen(self) -> tuple[int, ...]:
        """Every number that may be the batch size, each once."""
        sizes = [loader.batch_size for loader in self.loaders if loader.batch_size]
        return tuple(dict.fromkeys((*sizes, *self.leading)))


@dataclass(frozen=True, slots=True)
class Ready:
    """Warm-up is over after ``warmup`` iterations; the script stands at an iteration boundary."""

    warmup: int
    loop: CodeLine | None
    """The innermost frame of the person's that lives from iteration to iteration, and the line it stands on."""
    facts: RunFacts
    script_s: float = 0.0
    """Run time of the script until then."""
    warmup_reason: str = ""
    last: StepRow | None = None
    """The last iteration of the warm-up, if its time is known."""
    settled: tuple[StepRow, ...] = ()
    """The iterations by which the warm-up was judged to be over; empty where its length was asked for."""


@dataclass(frozen=True, slots=True)
class BareSteps:
    """Bare iterations, in order, and the files saved since the last ones."""

    rows: tuple[StepRow, ...]
    saves: tuple[ObservedSave, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """The script came to its end: how many iterations it had, and what else was seen of training."""

    boundaries: int
    optimizers: int
    backward_calls: int
    fetches: int
    modules: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    """Processes that the script started, as far as they were seen."""
    saves: tuple[ObservedSave, ...] = ()
    values: TensorValues | None = None
    """Of the iterations until then, if it ended while values of its tensors were looked at."""
    rows: tuple[StepRow, ...] = ()
    """The bare iterations of a turn that its end cut short."""
    called_modules: bool = False
    """True if a module was called, be it in training or not."""

    @property
    def only_evaluated(self) -> bool:
        """True if the script ran models and trained none."""
        return self.called_modules and not self.boundaries and not self.backward_calls


@dataclass(frozen=True, slots=True)
class Failed:
    """The script raised, or left with a status of its own; with a ``hint`` it did what cannot be followed.

    ``status`` is the one it left with by itself, None where it raised; ``boundaries`` counts its iterations by then.
    """

    message: str
    traceback: str
    file: str
    line: int
    modules: tuple[str, ...] = ()
    hint: str = ""
    status: int | None = None
    boundaries: int = 0
