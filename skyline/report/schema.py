"""The JSON that other programs rely on: profiles, what-if answers, verifications.

Times are milliseconds, memory is bytes, shares run from 0 to 1. A field may be added within a schema
version; one that changes its meaning or goes away makes a new version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skyline.analysis.curve import CurvePoint
from skyline.analysis.lines import LineCost
from skyline.findings.base import Finding
from skyline.interval import Interval
from skyline.memory.peak import MemoryBreakdown
from skyline.simulate.critical_path import CriticalPath
from skyline.trace.facts import Device
from skyline.trace.phase import PhaseTimes
from skyline.whatif.estimate import Estimate

PROFILE_SCHEMA = "skyline.profile/1"
WHATIF_SCHEMA = "skyline.whatif/1"

# What the analysis computes is reported as it is.
LineReport = LineCost
CriticalPathReport = CriticalPath
FindingReport = Finding
CurvePointReport = CurvePoint
EstimateReport = Estimate


@dataclass(frozen=True, slots=True)
class KnobReport:
    """The literal in the source that sets the batch size; line from 1, columns in characters from 0."""

    file: str
    line: int
    column: int
    end_column: int
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class BatchSizeReport:
    """The batch size in force, and the place to change it or the reason why there is none."""

    value: int | None
    knob: KnobReport | None
    reason: str | None
    candidates: tuple[KnobReport, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Peak live tensor memory of an iteration against what the device has."""

    peak_bytes: Interval
    capacity_bytes: int | None
    breakdown: MemoryBreakdown


@dataclass(frozen=True, slots=True)
class LoopReport:
    """The statement that drives the training, where the headline belongs."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class ProfileReport:
    """``skyline.profile/1``: what a profile says, ready to show."""

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
    """Samples per second; null where the number of samples in an iteration could not be seen."""
    batch_size: BatchSizeReport
    memory: MemoryReport
    phases: PhaseTimes
    lines: tuple[LineReport, ...]
    """Dearest first; they sum to the iteration time together with the unattributed row, which comes last."""
    unattributed_share: float
    critical_path: CriticalPathReport
    replay_error: float
    overhead: float
    """Recorded iteration time over bare iteration time."""
    findings: tuple[FindingReport, ...]
    curve: tuple[CurvePointReport, ...]
    loop: LoopReport | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BaselineReport:
    """The script as it stands."""

    iteration_ms: Interval
    throughput: Interval | None
    peak_bytes: Interval
    replay_error: float


@dataclass(frozen=True, slots=True)
class WhatIfReport:
    """``skyline.whatif/1``: every question asked, singly and together."""

    schema: str
    baseline: BaselineReport
    estimates: tuple[EstimateReport, ...]
    combined: EstimateReport | None
