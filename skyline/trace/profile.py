"""A profile: a few measured or predicted iterations, the sources at that time, and the machine; saved and loaded."""

from __future__ import annotations

from typing import Literal

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.source.knob import ConfiguredSetting, KnobSearch, SettingPlace
from skyline.trace.facts import (
    BatchFact,
    CallFact,
    DeviceMemoryFact,
    Environment,
    IterationFact,
    LabelFact,
    LoaderFact,
    MachineLoad,
    MemoryFact,
    ModuleFact,
    OptimizerFact,
    ParallelFact,
    PowerFact,
    Protection,
    RepeatedRead,
    SideEffect,
    TimedRead,
    TorchSettings,
)
from skyline.trace.observed_training import ObservedTraining, TrainingGoal
from skyline.trace.record import BareTimes, CodeLine, Trace
from skyline.trace.tensor_values import TensorValues
from skyline.trace.trial import ProductTrial, Trial


@dataclass(frozen=True, slots=True)
class Prediction:
    """The basis of a predicted profile.

    ``gpu`` is the predicted GPU, ``basis`` the end of the sentence "times rest on …". ``iteration_ms`` includes the
    uncertainty of the operators and of the host. ``unmeasured_share`` is the share of the GPU time in operators whose
    kind or number format was never measured. ``largest_batch`` is the largest batch size that should fit into the GPU's
    memory; None if unknown. It was itself traced if ``largest_batch_traced``; larger ones were not tried if
    ``larger_untried``.
    """

    gpu: str
    predictor: str
    basis: str
    iteration_ms: Interval
    unmeasured_share: float
    largest_batch: int | None = None
    largest_batch_traced: bool = False
    larger_untried: bool = False
    without_loading: str = ""
    """Reason why the time to load batches is left out; empty if it is included or none are loaded."""
    loading: str = ""
    """The basis of the time to load batches, as a sentence; empty if it is left out or none are loaded."""


CAPTURE_SCHEMA = "skyline.capture/2"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the user's code at the time of the profile."""

    path: str
    sha256: str
    text: str


@dataclass(frozen=True, slots=True)
class Profile:
    """All input of the analysis, and none of its results."""

    schema: str
    id: str
    created: str
    """ISO 8601, with the time zone."""
    script: str
    arguments: tuple[str, ...]
    working_directory: str
    interpreter: str
    environment: Environment
    sources: tuple[SourceFile, ...]
    times: BareTimes
    warmup_iterations: int
    recorded_ms: tuple[float, ...]
    """Wall time of the recorded iterations, which gives the overhead of recording."""
    trace: Trace
    memory: MemoryFact
    peak_bytes: int
    batch: BatchFact
    knobs: KnobSearch
    batch_size: int | None
    trials: tuple[Trial, ...] = ()
    """Variants of the script, each measured in turns with it: other batch sizes, threads and number formats."""
    optimizers: tuple[OptimizerFact, ...] = ()
    loaders: tuple[LoaderFact, ...] = ()
    loop_line: CodeLine | None = None
    """The line of the ``for`` or ``while`` of the training loop, if found."""
    notes: tuple[str, ...] = ()
    """Remarks for the user about this run: a batch size that was omitted and why, a short run, …"""
    warmup_reason: str = ""
    """The reason why warm-up ended, in words."""
    paired_ms: tuple[float, ...] = ()
    """Unrecorded iterations directly before and after the recorded ones: the reference for the recording overhead."""
    from_idle: BareTimes | None = None
    """Iterations that each began with an idle GPU, from before any recording; None without a GPU and in a short run."""
    module: str = ""
    """The dotted module name of the script, as for ``python -m``; empty if it ran as a file."""
    mode: Literal["measured", "predicted"] = "measured"
    """``predicted``: nothing was executed; the operators come from shape tracing, their times from predictors."""
    iteration: IterationFact | None = None
    side_effects: tuple[SideEffect, ...] = ()
    output_tail: str = ""
    """The last lines that the script printed."""
    device_memory: DeviceMemoryFact | None = None
    prediction: Prediction | None = None
    """The basis of the times of a predicted profile; None for a measured one."""
    settings: TorchSettings | None = None
    """None if unreadable, as in profiles of earlier versions."""
    modules: tuple[ModuleFact, ...] = ()
    """Modules of the training models in the order of ``named_modules()``; if very many, the larger ones (``notes``)."""
    parallel: ParallelFact | None = None
    calls: tuple[CallFact, ...] = ()
    asked_of_gpu: tuple[str, ...] = ()
    """Properties that a traced script queried from its GPU (``is_bf16_supported``); other GPUs answer differently."""
    power: PowerFact | None = None
    """The energy of iterations, if the hardware counts it."""
    repeated_reads: tuple[RepeatedRead, ...] = ()
    """Batches of a traced script that were not read in full."""
    timed_reads: tuple[TimedRead, ...] = ()
    """Times to read the batches of a traced script."""
    untimed_loading: str = ""
    """Reason why the time to load batches of a traced script is unknown; empty if it is known or none are loaded."""
    product_trials: tuple[ProductTrial, ...] = ()
    """Single products in bfloat16 and with other thread counts, on a CPU where whole iterations could not be tried."""
    large_block_us_per_mb: float = 0.0
    """Cost on a CPU of a block too large for the allocator's cache, which the system provides again each time."""
    load: MachineLoad | None = None
    """Load by other programs while the script was timed; None if unknown."""
    set_aside: bool = False
    """True if this profile is shown although a later one exists, which was measured on a busy machine."""
    setting: SettingPlace | None = None
    """The place in an opened file that holds the batch size under a key with a batch-size name."""
    configured: tuple[ConfiguredSetting, ...] = ()
    """Other settings than the batch size that opened files hold with the value that the run showed."""
    protection: Protection | None = None
    """The protection of the user's files during the run; None in profiles of earlier versions."""
    training: ObservedTraining | None = None
    """A longer stretch of training, where ``skyline estimate`` asked for it."""
    goal: TrainingGoal | None = None
    """The whole training as stated to ``skyline estimate``, or as a watched run that reached its target took it."""
    labels: LabelFact | None = None
    """None if the script classifies nothing, or into few classes, and in profiles of earlier versions."""
    values: TensorValues | None = None
    """Values in the tensors of a few further iterations; None if they could not be seen."""

    @property
    def trains(self) -> bool:
        """False if an iteration is a call of a model: the script evaluates, generates or serves."""
        return self.iteration is None or self.iteration.trains


def settings_files(profile: Profile) -> frozenset[str]:
    """The settings files in which the profile knows a place that may be rewritten."""
    places = [place for each in profile.configured for place in each.places]
    return frozenset(place.file for place in (*places, *([profile.setting] if profile.setting else [])))
