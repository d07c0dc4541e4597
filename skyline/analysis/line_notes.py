"""Notes in sentences on the costs of lines."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from skyline.analysis.line_parts import Place
from skyline.analysis.lines import LineCost
from skyline.graph.build import main_lane
from skyline.trace.profile import Profile
from skyline.trace.record import Trace

_WORTH_SAYING = 0.05
"""Least share of the iteration for a note."""
_MOST = 3


def line_notes(profile: Profile, lines: Sequence[LineCost], iteration_ms: float) -> tuple[str, ...]:
    """Notes on lines that do not run in every iteration, and on unrecorded work."""
    return (*_now_and_then(profile, lines, iteration_ms), *_in_workers(profile, lines, iteration_ms))


def _now_and_then(profile: Profile, lines: Sequence[LineCost], iteration_ms: float) -> list[str]:
    """A line that ran in some of the recorded iterations gets its average share."""
    trace = profile.trace
    count = len(trace.iterations)
    rare = [line for line in lines if line.file and line.frequency < 1 and count > 1]
    if not rare:
        return []
    times = _times_ms(trace, {(line.file, line.line) for line in rare})
    notes: list[str] = []
    for line in rare:
        ran = times.get((line.file, line.line), {})
        longest = max(ran.values(), default=0.0)
        if longest >= _WORTH_SAYING * iteration_ms:
            notes.append(
                f"{Path(line.file).name}:{line.line} ran in {len(ran)} of {count} recorded iterations, "
                f"{longest:.3g} ms at most: its cost per iteration depends on how often it really runs."
            )
    return notes[:_MOST]


def _times_ms(trace: Trace, wanted: Collection[Place]) -> dict[Place, dict[int, float]]:
    """The recorded time of these lines on the script's own thread, by iteration, in one pass over all records."""
    lane = main_lane(trace)
    places = {
        index: place for index, row in enumerate(trace.lines) if (place := (row.file, row.line)) in wanted
    }
    times: dict[Place, dict[int, float]] = {}
    for record in trace.records:
        place = places.get(record.line)
        if place is not None and record.lane == lane:
            spent = times.setdefault(place, {})
            spent[record.iteration] = spent.get(record.iteration, 0.0) + record.duration_us / 1e3
    return times


def _in_workers(profile: Profile, lines: Sequence[LineCost], iteration_ms: float) -> list[str]:
    workers = max((loader.num_workers for loader in profile.loaders), default=0)
    waiting = sum(line.data_ms for line in lines)
    if not workers or waiting < _WORTH_SAYING * iteration_ms:
        return []
    count = f"{workers} worker process{'es' if workers > 1 else ''}"
    return [
        (
            f"The batches come from {count}, whose lines are not recorded: the loop's wait for them counts for "
            "the line that fetches the next batch. To see the dataset's own lines, profile with num_workers=0."
        )
    ]
