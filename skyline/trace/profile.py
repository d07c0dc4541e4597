"""A profile: a few measured iterations, the sources as they were, and the machine; what is saved and loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skyline.source.knob import KnobSearch
from skyline.source.setting_place import SettingPlace
from skyline.trace.bare_times import BareTimes
from skyline.trace.facts import (
    BatchFact,
    CallFact,
    DeviceMemoryFact,
    Environment,
    LoaderFact,
    MemoryFact,
    ModuleFact,
    OptimizerFact,
    ParallelFact,
    TorchSettings,
)
from skyline.trace.iteration import IterationFact
from skyline.trace.load import MachineLoad
from skyline.trace.power import PowerFact
from skyline.trace.prediction import Prediction
from skyline.trace.product_trial import ProductTrial
from skyline.trace.record import CodeLine, Trace
from skyline.trace.repeated_read import RepeatedRead
from skyline.trace.side_effect import Protection, SideEffect
from skyline.trace.timed_read import TimedRead
from skyline.trace.trial import Trial

CAPTURE_SCHEMA = "skyline.capture/2"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the person's as it was when it was profiled."""

    path: str
    sha256: str
    text: str


@dataclass(frozen=True, slots=True)
class Profile:
    """Everything the analysis needs, and nothing that it computes."""

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
    """Wall time of the recorded iterations, for the overhead of recording."""
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
    """The line of the ``for`` or ``while`` that drives the training, where it was found."""
    notes: tuple[str, ...] = ()
    """What the person should know about this run: a batch size that was left out and why, a short run, …"""
    warmup_reason: str = ""
    """Why warm-up ended when it did, in words."""
    paired_ms: tuple[float, ...] = ()
    """Bare iterations from directly before and after the recorded ones: recording is set against these."""
    module: str = ""
    """The dotted name under which the script ran, as by ``python -m``; empty where it ran as a file."""
    mode: Literal["measured", "predicted"] = "measured"
    """``predicted``: nothing was executed; the operators come from shape tracing, their times from predictors."""
    iteration: IterationFact | None = None
    side_effects: tuple[SideEffect, ...] = ()
    output_tail: str = ""
    """The last lines that the script printed."""
    device_memory: DeviceMemoryFact | None = None
    prediction: Prediction | None = None
    """What the times of a predicted profile rest on; None where they were measured."""
    settings: TorchSettings | None = None
    """None where nothing could be read, as in profiles of earlier versions."""
    modules: tuple[ModuleFact, ...] = ()
    """Of the models that train, in the order of ``named_modules()``; of very many only the larger (see ``notes``)."""
    parallel: ParallelFact | None = None
    calls: tuple[CallFact, ...] = ()
    asked_of_gpu: tuple[str, ...] = ()
    """What a traced script asked the GPU that it was traced for (``is_bf16_supported``): others answer otherwise."""
    power: PowerFact | None = None
    """The energy of iterations, where the hardware counts it."""
    repeated_reads: tuple[RepeatedRead, ...] = ()
    """Batches of a traced script that were not read in full."""
    timed_reads: tuple[TimedRead, ...] = ()
    """How long the batches of a script that was traced for this processor took to read."""
    product_trials: tuple[ProductTrial, ...] = ()
    """Single products in bfloat16 and on other threads, on a CPU where no iterations could be tried so."""
    large_block_us_per_mb: float = 0.0
    """On a CPU, what a block costs that is too large for the allocator to keep: the system's fresh memory each time."""
    load: MachineLoad | None = None
    """How busy other programs were while the script was timed; None where that is not known."""
    set_aside: bool = False
    """Whether this is shown although a later measurement exists, which was made while the machine was busy."""
    setting: SettingPlace | None = None
    """The place in a file that the script opened which holds the batch size under a key named after it."""
    protection: Protection | None = None
    """What kept the run from the person's files; None in profiles of earlier versions."""
