"""The history of a script over its commits, as the JSON that other programs read: ``skyline.history/1``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skyline.interval import Interval, median
from skyline.lazy_dataclass import dataclass
from skyline.trace.history_row import HistoryRow
from skyline.verification.commits import ProfiledCommit

HISTORY_SCHEMA = "skyline.history/1"
_LEAST_CHANGE = 0.05
"""The difference between fresh processes of one script; a smaller change of the step time counts as none."""
_LEAST_MEMORY_CHANGE = 0.01
_MOST_LINES = 3
_LEAST_LINE_SHARE = 0.02
"""The least growth of a line that is named, as a share of the step."""


@dataclass(frozen=True, slots=True)
class GrownLine:
    """A line whose time per iteration grew; ``before_ms`` is None for a new line."""

    file: str
    line: int
    text: str
    before_ms: float | None
    after_ms: float


@dataclass(frozen=True, slots=True)
class StateReport:
    """The profiles of one state of the sources. ``change`` is None for the first state.

    ``iteration_ms`` has the median over ``profiles`` and the range of all. ``change`` is the change of the
    time per sample since the previous state that was profiled on a quiet machine. ``verdict`` is slower,
    faster or same; unsure if there is no such state or this machine was busy; empty for the first. ``commit``
    is empty for sources without a commit.
    """

    profiles: tuple[str, ...]
    created: str
    commit: str
    committed: str
    subject: str
    changed: bool
    batch_size: int | None
    iteration_ms: Interval
    per_sample_ms: float
    peak_bytes: int
    change: float | None
    verdict: str
    peak_change: float | None
    grown: tuple[GrownLine, ...]
    busy: bool


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """``skyline.history/1``: states of a script, oldest first. ``others`` counts profiles with other settings."""

    schema: str
    script: str
    arguments: tuple[str, ...]
    mode: str
    device: str
    torch: str
    states: tuple[StateReport, ...]
    others: int
    slower_at: tuple[str, ...]
    """The first profile of each state that is slower than the previous one."""


def history_report(
    script: str, rows: Sequence[HistoryRow], commits: Mapping[str, ProfiledCommit]
) -> HistoryReport:
    """The profiles with the settings of the last one, by state of the sources."""
    last = rows[-1]
    same = [row for row in rows if row.setting == last.setting]
    groups: list[list[HistoryRow]] = []
    for row in same:
        if groups and _state(groups[-1][-1]) == _state(row):
            groups[-1].append(row)
        else:
            groups.append([row])
    states: list[StateReport] = []
    for number, group in enumerate(groups):
        calm = [one for one in groups[:number] if not _is_busy(one)]
        states.append(_report(group, (calm or groups[:number] or [None])[-1], commits))
    return HistoryReport(
        HISTORY_SCHEMA,
        script,
        last.arguments,
        last.mode,
        last.device,
        last.torch,
        tuple(states),
        len(rows) - len(same),
        tuple(one.profiles[0] for one in states if one.verdict == "slower"),
    )


def drawn_times(states: Sequence[StateReport]) -> tuple[str, list[Interval]]:
    """The title and the times of a chart: of a step, or of a sample if the states have different batch sizes."""
    if len({one.batch_size for one in states}) == 1:
        return "Step time", [one.iteration_ms for one in states]
    return "Time per sample", [one.iteration_ms.scaled(1 / (one.batch_size or 1)) for one in states]


def _state(row: HistoryRow) -> tuple[object, ...]:
    return (row.sources, row.batch_size)


def _report(
    group: Sequence[HistoryRow], before: Sequence[HistoryRow] | None, commits: Mapping[str, ProfiledCommit]
) -> StateReport:
    # A run on a busy machine counts only if there is no other.
    calm = [row for row in group if not row.busy] or list(group)
    own = _time(calm)
    found = commits.get(group[0].id)
    size = group[-1].batch_size
    change = verdict = peak_change = None
    grown: tuple[GrownLine, ...] = ()
    if before is not None:
        calm_before = [row for row in before if not row.busy] or list(before)
        old = _time(calm_before)
        factor = (before[-1].batch_size or 1) / (size or 1) if size and before[-1].batch_size else 1.0
        change = own.value * factor / old.value - 1
        verdict = (
            "unsure" if _is_busy(group) or _is_busy(before) else _verdict(old, own.scaled(factor), change)
        )
        peak_change = group[-1].peak_bytes / before[-1].peak_bytes - 1 if before[-1].peak_bytes else None
        if peak_change is not None and abs(peak_change) < _LEAST_MEMORY_CHANGE:
            peak_change = 0.0
        if verdict == "slower":
            grown = _grown(calm_before[-1], calm[-1], factor)
    return StateReport(
        tuple(row.id for row in group),
        group[-1].created,
        found.commit.id if found else "",
        found.commit.date if found else "",
        found.commit.subject if found else "",
        found.changed if found else False,
        size,
        own,
        own.value / size if size else own.value,
        group[-1].peak_bytes,
        change,
        verdict or "",
        peak_change,
        grown,
        _is_busy(group),
    )


def _is_busy(rows: Sequence[HistoryRow]) -> bool:
    return all(row.busy for row in rows)


def _time(rows: Sequence[HistoryRow]) -> Interval:
    return Interval(
        median([row.iteration_ms.value for row in rows]),
        min(row.iteration_ms.low for row in rows),
        max(row.iteration_ms.high for row in rows),
    )


def _verdict(before: Interval, after: Interval, change: float) -> str:
    """``slower`` or ``faster`` if the ranges do not overlap and the change exceeds the usual scatter."""
    if abs(change) <= _LEAST_CHANGE:
        return "same"
    if after.low > before.high:
        return "slower"
    return "faster" if after.high < before.low else "same"


def _grown(before: HistoryRow, after: HistoryRow, factor: float) -> tuple[GrownLine, ...]:
    """The lines with the greatest growth. The times of a line that occurs several times are added."""
    then = _by_text(before)
    found: list[tuple[float, GrownLine]] = []
    for key, (line, now_ms) in _by_text(after).items():
        known = then.get(key)
        growth = now_ms * factor - (known[1] if known else 0.0)
        if growth >= _LEAST_LINE_SHARE * after.iteration_ms.value * factor:
            found.append((growth, GrownLine(key[0], line, key[1], known[1] if known else None, now_ms)))
    return tuple(one for _, one in sorted(found, key=lambda one: -one[0])[:_MOST_LINES])


def _by_text(row: HistoryRow) -> dict[tuple[str, str], tuple[int, float]]:
    found: dict[tuple[str, str], tuple[int, float]] = {}
    for one in row.lines:
        line, known_ms = found.get((one.file, one.text), (one.line, 0.0))
        found[one.file, one.text] = (line, known_ms + one.time_ms)
    return found
