"""The JSON that other programs rely on: profiles, what-if answers, verifications.

Times are milliseconds, memory is bytes, shares are from 0 to 1. A field may be added within a schema version;
a removed field, or one with a new meaning, makes a new version.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from skyline.analysis.line_cost import LineCost
from skyline.analysis.line_kernels import LineKernel
from skyline.analysis.step_verdict import StepVerdict
from skyline.findings.base import Finding
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.ledger.record import TrackRecord
from skyline.memory.peak import MemoryBreakdown
from skyline.memory.timeline import MemoryPoint
from skyline.simulate.critical_shares import CriticalPath
from skyline.source.knob import SettingPlace
from skyline.trace.facts import (
    Device,
    DeviceMemoryFact,
    IterationFact,
    MachineLoad,
    PowerFact,
    Protection,
    SideEffect,
)
from skyline.trace.profile import Prediction
from skyline.trace.record import PhaseTimes
from skyline.whatif.question import CurvePoint, Estimate

PROFILE_SCHEMA = "skyline.profile/1"
WHATIF_SCHEMA = "skyline.whatif/2"
VERIFY_SCHEMA = "skyline.verify/2"

# The result of the analysis is reported unchanged.
LineReport = LineCost
KernelReport = LineKernel
CriticalPathReport = CriticalPath
FindingReport = Finding
CurvePointReport = CurvePoint
EstimateReport = Estimate
TrackRecordReport = TrackRecord
VerdictReport = StepVerdict


@dataclass(frozen=True, slots=True)
class KnobReport:
    """The literal in the source that sets the batch size; line from 1, columns in characters from 0."""

    file: str
    line: int
    column: int
    end_column: int
    text: str
    kind: str
    cell: str = ""
    """In a notebook, the place as its reader sees it, ``In [7]:3``; else empty."""


@dataclass(frozen=True, slots=True)
class BatchSizeReport:
    """The batch size in force, and the place to change it or the reason why there is none.

    ``lives`` is the place in a settings file that holds it, if it is known and no literal in the code sets
    the batch size.
    """

    value: int | None
    knob: KnobReport | None
    reason: str | None
    candidates: tuple[KnobReport, ...] = ()
    lives: SettingPlace | None = None


@dataclass(frozen=True, slots=True)
class PeakLine:
    """A line and the memory that it had allocated and that was live at the peak."""

    file: str
    line: int
    source: str
    size_bytes: int
    cell: str = ""
    """In a notebook, the place as its reader sees it, ``In [7]:3``; else empty."""


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """The peak live tensor memory of an iteration, and the memory of the device.

    ``usable_bytes`` is the part of the capacity that tensors can use. ``timeline`` is the level over the
    recorded iteration, ``at_peak`` are the lines that had allocated most of the peak. ``device`` is the other
    contents of a GPU.
    """

    peak_bytes: Interval
    capacity_bytes: int | None
    breakdown: MemoryBreakdown
    usable_bytes: int | None = None
    timeline: tuple[MemoryPoint, ...] = ()
    at_peak: tuple[PeakLine, ...] = ()
    device: DeviceMemoryFact | None = None


@dataclass(frozen=True, slots=True)
class LoopReport:
    """The statement that drives the training, where editors show the headline."""

    file: str
    line: int
    cell: str = ""
    """In a notebook, the place as its reader sees it, ``In [7]:3``; else empty."""


@dataclass(frozen=True, slots=True)
class BatchContentsReport:
    """The batch holds ``images``, or sequences of ``tokens`` with ``per_sample`` tokens each."""

    noun: Literal["images", "tokens"]
    per_sample: int


@dataclass(frozen=True, slots=True)
class WallTimeReport:
    """The timed iterations of a script whose mean iteration is clearly longer than the typical one.

    The fields from ``typical`` to ``other`` are shares of the wall time of these iterations and add up to 1.
    ``typical`` counts each iteration with its typical length; the others are the time of each part beyond its
    typical time. ``rollouts`` is time in and between steps of environments, ``evaluation`` in models switched
    to evaluation, ``checkpoints`` in writing weights to files, ``logging`` in handlers of ``logging`` and
    TensorBoard, ``data`` in waits for data loaders, ``passes`` in backward passes and updates, and ``other``
    the rest. ``throughput`` is samples per second over the whole time; null if the samples are unknown.
    ``remark`` is a summary in one line; empty if the machine was busy, since other programs then caused the
    long iterations.
    """

    iterations: int
    long_iterations: int
    mean_ms: float
    typical: float
    data: float
    passes: float
    other: float
    throughput: float | None
    rollouts: float = 0.0
    evaluation: float = 0.0
    checkpoints: float = 0.0
    logging: float = 0.0
    remark: str = ""


@dataclass(frozen=True, slots=True)
class LatencyReport:
    """Percentiles of the iterations of a script that does not train; each is a call of its model with its surroundings.

    ``p99_ms`` is null with fewer than 100 timed calls.
    """

    calls: int
    p50_ms: float
    p90_ms: float
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class ProfileReport:
    """``skyline.profile/1``: the content of a profile, ready to show."""

    schema: str
    id: str
    created: str
    script: str
    arguments: tuple[str, ...]
    mode: Literal["measured", "predicted"]
    device: Device
    intraop_threads: int
    steps: tuple[float, ...]
    iteration_ms: Interval
    throughput: Interval | None
    """Samples per second; null if the number of samples in an iteration is unknown."""
    batch_size: BatchSizeReport
    memory: MemoryReport
    phases: PhaseTimes
    lines: tuple[LineReport, ...]
    """Costliest first. The unattributed row comes last; all rows add up to the iteration time."""
    unattributed_share: float
    critical_path: CriticalPathReport
    replay_error: float
    overhead: float
    """The recorded iteration time divided by the bare iteration time."""
    findings: tuple[FindingReport, ...]
    curve: tuple[CurvePointReport, ...]
    loop: LoopReport | None
    notes: tuple[str, ...]
    module: str = ""
    """The dotted name of a script that ran like ``python -m``; empty if it ran as a file."""
    iteration: IterationFact | None = None
    """The meaning of one iteration of this script; null in profiles of earlier versions."""
    warmup_iterations: int = 0
    warmup_reason: str = ""
    side_effects: tuple[SideEffect, ...] = ()
    prediction: Prediction | None = None
    """The basis of the times if ``mode`` is ``predicted``: nothing was run."""
    power: PowerFact | None = None
    """The energy of an iteration, if the hardware counts it."""
    protection: Protection | None = None
    """The protection of the person's files from the run; null in profiles of earlier versions."""
    load: MachineLoad | None = None
    """The load of other programs while the script was timed; null if unknown."""
    machine_busy: bool = False
    """True if other programs took processor time that the script would have used."""
    set_aside: bool = False
    """True if a later measurement exists that was made on a busy machine and is not shown."""
    gpu_phases: PhaseTimes | None = None
    """Time of kernels and copies per iteration, summed over all streams; null if none was recorded."""
    gpu_busy_share: float | None = None
    """The share of the iteration in which at least one of them runs; null if none was recorded."""
    kernels: tuple[KernelReport, ...] = ()
    """The longest kernels and copies of each line that launched any."""
    latency: LatencyReport | None = None
    """Null for a script that trains."""
    wall_time: WallTimeReport | None = None
    """Null if the mean iteration is about as long as a typical one."""
    contents: BatchContentsReport | None = None
    """Null if the operators show neither images nor tokens."""


@dataclass(frozen=True, slots=True)
class BaselineReport:
    """The unchanged script."""

    iteration_ms: Interval
    throughput: Interval | None
    peak_bytes: Interval | None
    """Null if a trace does not show it."""
    replay_error: float
    gpu_busy: dict[str, float] = field(default_factory=dict[str, float])
    """For each GPU the share of the step in which any of its streams works. A change that keeps that work
    cannot shorten the step below it. Empty without a GPU whose work was recorded."""
    bounded_by: CriticalPathReport | None = None
    """The causes that bound the step, as shares of its critical path."""

    @property
    def peak(self) -> Interval:
        """The peak in bytes; zero if unknown, since no peak is zero."""
        return self.peak_bytes or Interval.exact(0.0)


@dataclass(frozen=True, slots=True)
class BestReport:
    """The best combination that was found: ``choices`` as they are typed, null with a reason if there is none.

    It is the best of ``tried`` combinations, each simulated as a whole, that need at most ``memory_bytes``
    and change training no more gravely than ``semantics``.
    """

    choices: tuple[str, ...]
    estimate: EstimateReport | None
    parts: tuple[EstimateReport, ...]
    """Each choice alone."""
    tried: int
    memory_bytes: float | None
    semantics: Literal["exact", "numerics", "convergence", "model"]
    reason: str | None = None
    left_out: tuple[str, ...] = ()
    """Choices that could not be made even alone, with the reasons."""


@dataclass(frozen=True, slots=True)
class WhatIfReport:
    """``skyline.whatif/2``: every question asked, one by one and combined."""

    schema: str
    baseline: BaselineReport
    estimates: tuple[EstimateReport, ...]
    combined: EstimateReport | None
    ledger: tuple[TrackRecordReport, ...] = ()
    """The accuracy of earlier predictions for these what-ifs on this machine, if any were verified."""
    best: BestReport | None = None
    """Set only on request."""
    verdict: VerdictReport | None = None
    """The cause that bounds the step, and the change that helps most; set only if every what-if is answered."""


@dataclass(frozen=True, slots=True)
class MeasuredReport:
    """The measurements of a verification; times relate to the profile of the prediction.

    ``ratio`` is the iteration time with the change divided by the time without it, ``null`` is the script
    compared with itself. ``baseline_ms`` is the unchanged script in this measurement, ``others_cores`` the
    number of cores that other programs kept busy. Peaks are null if the script ended before its memory was
    recorded.
    """

    iteration_ms: Interval
    ratio: Interval
    speedup: Interval
    """Samples per second divided by those without the change."""
    throughput: Interval | None
    null: Interval
    rounds: int
    baseline_ms: float
    others_cores: float
    baseline_peak_bytes: int | None
    peak_bytes: int | None


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """A prediction compared with its measurement.

    ``error`` is the share of the measured iteration time by which the prediction was too long (negative: too
    short), ``held`` is true if the predicted interval contained the measurement. If two scripts were compared
    without a prediction, ``predicted``, ``error`` and ``held`` are null. ``valid`` is false if the
    measurement does not count; ``reason`` says why and ``hint`` what to do next. ``entry`` is the id in the
    ledger, null if it is not stored.
    """

    schema: str
    script: str
    whatifs: tuple[str, ...]
    baseline: BaselineReport | None
    predicted: EstimateReport | None
    measured: MeasuredReport
    error: float | None
    held: bool | None
    null_ratio: float
    valid: bool
    reason: str | None
    hint: str | None
    notes: tuple[str, ...] = ()
    diff: str = ""
    entry: str | None = None
    against: str = ""
    """The other script, if two were compared."""
