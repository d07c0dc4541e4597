"""A profile: a few measured or predicted iterations, the sources at that time, and the machine; saved and loaded."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, Literal, cast

from skyline.interval import Interval, interval_of_first, interval_of_series
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
from skyline.trace.trial import FailedTrial, KroneckerTrial, ProductTrial, SplitTrial, Trial


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
    failed_trials: tuple[FailedTrial, ...] = ()
    """Variants in which the script raised an exception; they have no times."""
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
    """Properties of its GPU that a traced script queried (``is_bf16_supported``). Other GPUs may answer differently."""
    power: PowerFact | None = None
    """The energy of iterations, if the hardware counts it."""
    repeated_reads: tuple[RepeatedRead, ...] = ()
    """Batches of a traced script that were not read in full."""
    timed_reads: tuple[TimedRead, ...] = ()
    """Times to read the batches of a traced script."""
    untimed_loading: str = ""
    """Reason why the time to load batches of a traced script is unknown; empty if it is known or none are loaded."""
    product_trials: tuple[ProductTrial, ...] = ()
    """Single products in bfloat16 and with other thread counts, on a CPU, if whole iterations could not be tried."""
    split_trials: tuple[SplitTrial, ...] = ()
    """Products with weights of the script on a CPU, whole and split into two thinner products."""
    kronecker_trials: tuple[KroneckerTrial, ...] = ()
    """Layers of the script on a CPU, as they are and with Kronecker products as weights."""
    large_block_us_per_mb: float = 0.0
    """Cost on a CPU of a block too large for the allocator's cache, which the operating system provides again
    each time."""
    copied_us_per_mb: float = 0.0
    """Cost of writing to memory that a forked process shares; 0 if not measured, or on a GPU."""
    load: MachineLoad | None = None
    """Load by other programs while the script was timed; None if unknown."""
    set_aside: bool = False
    """True if this profile is shown because the later one was measured on a busy machine."""
    setting: SettingPlace | None = None
    """The place of the batch size in an opened file, under a key with a batch-size name."""
    configured: tuple[ConfiguredSetting, ...] = ()
    """Settings other than the batch size that opened files hold, with the values that the run showed."""
    protection: Protection | None = None
    """The protection of the user's files during the run; None in profiles of earlier versions."""
    training: ObservedTraining | None = None
    """A longer stretch of training, recorded for ``skyline estimate``."""
    goal: TrainingGoal | None = None
    """The whole training, as stated to ``skyline estimate`` or as done by a watched run that reached its target."""
    labels: LabelFact | None = None
    """None if the script does not classify, has few classes, or the profile is of an earlier version."""
    values: TensorValues | None = None
    """Values in the tensors of a few further iterations; None if they could not be seen."""
    first: bool = False
    """True while further iterations follow. ``times`` then hold the first iterations, from which later ones differ."""

    @property
    def iteration_ms(self) -> Interval:
        """The iteration time: measured or predicted. The first figures have the range in which the final one lies."""
        if self.prediction is not None:
            return self.prediction.iteration_ms
        steps_ms = self.times.steps_ms
        return interval_of_first(steps_ms) if self.first else interval_of_series(steps_ms)

    @property
    def trains(self) -> bool:
        """False if an iteration is one call of a model: the script evaluates, generates or serves."""
        return self.iteration is None or self.iteration.trains


def settings_files(profile: Profile) -> frozenset[str]:
    """The settings files with a place that the profile knows and that may be rewritten."""
    places = [place for each in profile.configured for place in each.places]
    return frozenset(place.file for place in (*places, *([profile.setting] if profile.setting else [])))


_MOST = 1e15
"""Limit of any floating-point number: 31 years in µs."""
_LONGEST_INTEGER = 2**63 - 1
"""Limit of an integer; memory addresses and flop counts come close to it."""
_LONGEST_TEXT = 1 << 16
"""Limit of the length of names, paths and notes. The size of the profile limits the texts of whole files."""
_WHOLE_TEXTS = frozenset({"text", "output_tail"})
_MOST_SIZE_BYTES = 2**53
"""Limit of integers that are used as floats: exact up to 9 PB."""
_MOST_OF_A_MACHINE = 10**6
"""Limit of threads, workers and processes: what-ifs enumerate them."""
_COUNTED = re.compile(r"threads|num_workers|cpu_count|world_size|prefetch_factor")
_NEVER_NEGATIVE = re.compile(r".*_per_iteration|.*_count")
"""Fields that must not be negative. Times and sizes are excluded: differences may be slightly below 0."""
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}")


def check_plausible(profile: Profile) -> None:
    """Raise ValueError, with the place and the problem, for values that no run can produce.

    Files get damaged, and folders may come from other people. The decoder has checked the types; these checks cover the
    remaining assumptions of the analysis.
    """
    _check_fields((profile,), "")
    _check_times(profile.times, "times")
    if profile.from_idle is not None:
        _check_times(profile.from_idle, "from_idle")
    for trial in profile.trials:
        size = trial.choices.batch_size
        _require(size is None or size > 0, "trials.choices.batch_size", "not above 0")
        _require(all(ratio > 0 for ratio in trial.ratios), "trials.ratios", "not above 0")
        if trial.times.steps_ms or not trial.operators:
            _check_times(trial.times, "trials.times")
    _require(profile.batch_size is None or profile.batch_size > 0, "batch_size", "not above 0")
    _require(_VERSION.match(profile.environment.torch) is not None, "environment.torch", "no version")
    named = os.path.isabs(profile.script) or os.path.basename(profile.script) == profile.script != ""
    _require(named, "script", "not the name of a file in the profile's folder")
    try:
        datetime.fromisoformat(profile.created)
    except ValueError:
        raise ValueError("created is not a time") from None
    _check_trace(profile.trace)


def _check_times(times: BareTimes, at: str) -> None:
    count = len(times.steps_ms)
    _require(count > 0, f"{at}.steps_ms", "empty")
    _require(all(step > 0 for step in times.steps_ms), f"{at}.steps_ms", "not above 0")
    same = all(len(part) == count for part in (times.data_ms, times.backward_ms, times.optimizer_ms))
    others = (times.saving_ms, times.logging_ms, times.evaluation_ms, times.rollout_ms)
    same = same and all(len(part) in {0, count} for part in (times.memory_bytes, times.host_ms, *others))
    _require(same, at, "of unequal lengths")


def _check_trace(trace: Trace) -> None:
    _require(bool(trace.iterations), "trace.iterations", "empty")
    _require(all(one.end_us >= one.start_us for one in trace.iterations), "trace.iterations", "negative")
    _require(any(record.duration_us > 0 for record in trace.records), "trace.records", "without any time")
    tables: tuple[tuple[str, Sequence[object]], ...] = (
        ("line", trace.lines),
        ("call_line", trace.lines),
        ("module", trace.modules),
        ("shape", trace.shapes),
        ("function", trace.functions),
    )
    for name, table in tables:
        _check_indices(map(attrgetter(name), trace.records), table, f"trace.records.{name}")
    _check_indices((one.line for one in trace.allocations), trace.lines, "trace.allocations.line")


def _check_indices(indices: Iterable[int], table: Sequence[object], at: str) -> None:
    _require(all(-1 <= index < len(table) for index in set(indices)), at, "beyond its table")


def _check_fields(rows: Sequence[Any], at: str) -> None:
    """Check rows of one class field by field: a trace has very many rows."""
    kind: type = rows[0].__class__
    for name in _names(kind):
        _check_values(list(map(attrgetter(name), rows)), name, f"{at}.{name}" if at else name)


def _check_values(values: Sequence[Any], name: str, at: str) -> None:
    kinds = set(map(type, values))
    for kind in kinds:
        alike = values if len(kinds) == 1 else [value for value in values if type(value) is kind]
        if is_dataclass(kind):
            _check_fields(alike, at)
        elif issubclass(kind, tuple):
            inner = [one for value in alike for one in value]
            _check_values(inner, name, at)
        elif issubclass(kind, Mapping):
            inner = [
                one
                for value in alike
                for pair in cast("Mapping[object, object]", value).items()
                for one in pair
            ]
            _check_values(inner, name, at)
        elif kind in _CHECKS:
            _CHECKS[kind](alike, name, at)


def _check_integers(values: Sequence[int], name: str, at: str) -> None:
    low, high = -_LONGEST_INTEGER - 1, _LONGEST_INTEGER
    if _COUNTED.search(name):
        high = _MOST_OF_A_MACHINE
    elif name.endswith("_bytes"):
        low, high = -_MOST_SIZE_BYTES, _MOST_SIZE_BYTES
    if _NEVER_NEGATIVE.fullmatch(name):
        low = 0
    _require(low <= min(values) and max(values) <= high, at, "out of range")


def _check_floats(values: Sequence[float], name: str, at: str) -> None:
    # Options are constructor arguments of modules, such as the fill value of a mask.
    high = float("inf") if name == "options" else _MOST
    low = 0.0 if _NEVER_NEGATIVE.fullmatch(name) else -high
    _require(low <= min(values) and max(values) <= high, at, "out of range")


def _check_texts(values: Sequence[str], name: str, at: str) -> None:
    _require(name in _WHOLE_TEXTS or max(map(len, values)) <= _LONGEST_TEXT, at, "too long")


_CHECKS: dict[type, Callable[[Sequence[Any], str, str], None]] = {
    int: _check_integers,
    float: _check_floats,
    str: _check_texts,
}


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _require(holds: bool, at: str, wrong: str) -> None:
    if not holds:
        raise ValueError(f"{at} is {wrong}")
