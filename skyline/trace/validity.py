"""Plausibility checks of a saved profile: files get damaged, and folders may come from other people.

The decoder has checked the types. These checks cover the remaining assumptions of the analysis.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, cast

from skyline.trace.profile import Profile
from skyline.trace.record import BareTimes, Trace

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


def check(profile: Profile) -> None:
    """Raise ValueError, with the place and the problem, for values that no run can produce."""
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
    same = same and all(len(part) in {0, count} for part in (times.memory_bytes, times.host_ms))
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
    for kind in set(map(type, values)):
        alike = values if len(values) == 1 else [value for value in values if type(value) is kind]
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
