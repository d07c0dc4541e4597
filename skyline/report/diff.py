"""Compares two profiles of a script: the phases and lines that got faster or slower by more than the noise."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import PurePath
from typing import Literal

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.report.schema import LineReport, ProfileReport
from skyline.trace.record import Phase

DIFF_SCHEMA = "skyline.diff/1"

Verdict = Literal["faster", "slower", "within noise"]


@dataclass(frozen=True, slots=True)
class SideReport:
    """One of the two profiles."""

    id: str
    created: str
    script: str
    iteration_ms: Interval
    throughput: Interval | None
    peak_bytes: Interval
    batch_size: int | None


@dataclass(frozen=True, slots=True)
class PhaseChange:
    """A phase before and after, in ms per iteration."""

    phase: str
    before_ms: float
    after_ms: float


@dataclass(frozen=True, slots=True)
class LineChange:
    """A line before and after; 0 on a side without the line."""

    file: str
    line_before: int
    line_after: int
    function: str
    source: str
    before_ms: float
    after_ms: float

    @property
    def change_ms(self) -> float:
        """After minus before."""
        return self.after_ms - self.before_ms


@dataclass(frozen=True, slots=True)
class DiffReport:
    """``skyline.diff/1``. Changes are after minus before.

    ``change`` is relative. It compares the time for the same work if both throughputs are known, else the
    iteration. ``noise`` is the relative change that the spread of the two measurements can explain: the root
    of the sum of the squares of their relative half-widths.
    """

    schema: str
    before: SideReport
    after: SideReport
    change_ms: float
    change: float
    noise: float
    verdict: Verdict
    per_sample: bool
    peak_change_bytes: float
    phases: tuple[PhaseChange, ...]
    lines: tuple[LineChange, ...]
    """Largest change first."""
    notes: tuple[str, ...]


def diff(before: ProfileReport, after: ProfileReport) -> DiffReport:
    """Compares two profiles; lines are matched by their text, so a moved line is still the same line."""
    per_sample = before.throughput is not None and after.throughput is not None
    if before.throughput is not None and after.throughput is not None:
        old, new = before.throughput, after.throughput
        change = old.value / new.value - 1
    else:
        old, new = before.iteration_ms, after.iteration_ms
        change = new.value / old.value - 1
    noise = math.hypot(old.half_width / old.value, new.half_width / new.value)
    verdict: Verdict = "within noise"
    if abs(change) > noise:
        verdict = "faster" if change < 0 else "slower"
    return DiffReport(
        schema=DIFF_SCHEMA,
        before=_side(before),
        after=_side(after),
        change_ms=after.iteration_ms.value - before.iteration_ms.value,
        change=change,
        noise=noise,
        verdict=verdict,
        per_sample=per_sample,
        peak_change_bytes=after.memory.peak_bytes.value - before.memory.peak_bytes.value,
        phases=tuple(
            PhaseChange(phase.value, before.phases[phase], after.phases[phase])
            for phase in Phase
            if before.phases[phase] or after.phases[phase]
        ),
        lines=_line_changes(before, after),
        notes=_notes(before, after),
    )


def _side(report: ProfileReport) -> SideReport:
    return SideReport(
        id=report.id,
        created=report.created,
        script=report.script,
        iteration_ms=report.iteration_ms,
        throughput=report.throughput,
        peak_bytes=report.memory.peak_bytes,
        batch_size=report.batch_size.value,
    )


def _line_changes(before: ProfileReport, after: ProfileReport) -> tuple[LineChange, ...]:
    olds = [
        replace(line, file=_there(line.file, before.script, after.script))
        for line in before.lines
        if line.file
    ]
    news = [line for line in after.lines if line.file]
    pairs = _matched(olds, news)
    matched_old = {id(old) for old, _ in pairs}
    matched_new = {id(new) for _, new in pairs}
    changes = [
        LineChange(new.file, old.line, new.line, new.function, new.source, old.self_ms, new.self_ms)
        for old, new in pairs
    ]
    changes += [
        LineChange(old.file, old.line, 0, old.function, old.source, old.self_ms, 0.0)
        for old in olds
        if id(old) not in matched_old
    ]
    changes += [
        LineChange(new.file, 0, new.line, new.function, new.source, 0.0, new.self_ms)
        for new in news
        if id(new) not in matched_new
    ]
    return tuple(sorted(changes, key=lambda change: -abs(change.change_ms)))


def _there(file: str, before: str, after: str) -> str:
    """Maps files of one script to the other's, so that copies of a project are compared line by line."""
    here, there = PurePath(before), PurePath(after)
    if here == there or here.name != there.name:
        return file
    try:
        return str(there.parent / PurePath(file).relative_to(here.parent))
    except ValueError:
        return file


def _matched(olds: list[LineReport], news: list[LineReport]) -> list[tuple[LineReport, LineReport]]:
    """Pairs of the same line: by function and text first, in order; then by place."""
    pairs: list[tuple[LineReport, LineReport]] = []
    left_old, left_new = list(olds), list(news)
    for key in (_by_text, _by_place):
        waiting: dict[tuple[str, ...], list[LineReport]] = {}
        for new in sorted(left_new, key=lambda line: line.line):
            waiting.setdefault(key(new), []).append(new)
        for old in sorted(left_old, key=lambda line: line.line):
            candidates = waiting.get(key(old))
            if candidates:
                pairs.append((old, candidates.pop(0)))
        done = {id(line) for pair in pairs for line in pair}
        left_old = [line for line in left_old if id(line) not in done]
        left_new = [line for line in left_new if id(line) not in done]
    return pairs


def _by_text(line: LineReport) -> tuple[str, ...]:
    return line.file, _name(line), line.source.strip()


def _by_place(line: LineReport) -> tuple[str, ...]:
    return line.file, _name(line), str(line.line)


def _name(line: LineReport) -> str:
    """The function without its class, since measured lines do not have the class and traced lines do."""
    return line.function.rpartition(".")[2]


def _notes(before: ProfileReport, after: ProfileReport) -> tuple[str, ...]:
    """The limits of the comparison."""
    notes: list[str] = []
    if before.script != after.script:
        notes.append(f"these are two scripts: {before.script} and {after.script}")
    if before.mode != after.mode:
        notes.append(f"the times of the first are {before.mode}, of the second {after.mode}")
    if before.device != after.device:
        notes.append(f"the devices differ: {before.device.name} and {after.device.name}")
    if before.intraop_threads != after.intraop_threads:
        notes.append(f"the number of threads differs: {before.intraop_threads} and {after.intraop_threads}")
    if before.arguments != after.arguments:
        notes.append(
            f"the arguments differ: {' '.join(before.arguments) or 'none'} and {' '.join(after.arguments) or 'none'}"
        )
    if before.batch_size.value != after.batch_size.value:
        notes.append(f"the batch sizes differ: {before.batch_size.value} and {after.batch_size.value}")
    return tuple(notes)
