"""A short form of a profile, which the history of a script keeps longer than the profile itself."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from skyline.interval import Interval, median
from skyline.lazy_dataclass import dataclass
from skyline.trace.profile import Profile
from skyline.trace.record import ON_DEVICE, Record

_MOST_LINES = 40


@dataclass(frozen=True, slots=True)
class LineTime:
    """The time of a source line per iteration. Its text identifies it, because its number changes between commits."""

    file: str
    text: str
    line: int
    time_ms: float


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A profile in short form. ``sources`` are pairs of a path, relative to the script, and git's id of its text."""

    id: str
    created: str
    arguments: tuple[str, ...]
    mode: str
    device: str
    threads: int
    torch: str
    batch_size: int | None
    iteration_ms: Interval
    peak_bytes: int
    sources: tuple[tuple[str, str], ...]
    lines: tuple[LineTime, ...]
    busy: bool = False
    """True if other programs took processor time from the run."""

    @property
    def setting(self) -> tuple[object, ...]:
        """Profiles with equal settings can be compared."""
        return (self.arguments, self.mode, self.device, self.threads, self.torch)


def history_row(profile: Profile) -> HistoryRow:
    """The row of a profile with absolute paths."""
    folder = Path(profile.script).parent
    environment = profile.environment
    return HistoryRow(
        profile.id,
        profile.created,
        profile.arguments,
        profile.mode,
        environment.device.name,
        environment.intraop_threads,
        environment.torch,
        profile.batch_size,
        profile.iteration_ms,
        profile.peak_bytes,
        tuple((_relative(one.path, folder), blob_id(one.text)) for one in profile.sources),
        _lines(profile, folder),
        profile.load is not None and profile.load.busy,
    )


def blob_id(text: str) -> str:
    """The name under which git stores a file with this text."""
    data = text.encode("utf-8", "surrogatepass")
    from hashlib import sha1

    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _relative(path: str, folder: Path) -> str:
    real = os.path.realpath(folder)
    return os.path.relpath(os.path.realpath(path), real)


def _lines(profile: Profile, folder: Path) -> tuple[LineTime, ...]:
    """The most expensive lines: by kernels and copies if the GPU was recorded, else by work of the host."""
    trace = profile.trace
    kernels = [one for one in trace.records if one.kind in ON_DEVICE]
    records = kernels or list(trace.records)
    times_us: Counter[int] = Counter()
    for record in records:
        times_us[record.line] += _own_us(record)  # type: ignore[assignment]
    whole_us = sum(times_us.values())
    if whole_us <= 0:
        return ()
    count = max(1, len(trace.iterations))
    # Recording takes time. Without kernels, the lines are therefore scaled to the unrecorded iteration.
    scale = 1 / count / 1e3 if kernels else median(profile.times.steps_ms) / whole_us
    texts = {os.path.realpath(one.path): one.text.splitlines() for one in profile.sources}
    found: list[LineTime] = []
    for index, took_us in times_us.most_common(_MOST_LINES):
        if index >= 0:
            place = trace.lines[index]
            text = texts.get(os.path.realpath(place.file), [])
            shown = text[place.line - 1].strip() if 0 < place.line <= len(text) else ""
            found.append(LineTime(_relative(place.file, folder), shown, place.line, took_us * scale))
    return tuple(found)


def _own_us(record: Record) -> float:
    return max(0.0, record.duration_us - record.recording_us)
