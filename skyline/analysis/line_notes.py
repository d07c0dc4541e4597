"""What the costs of lines cannot say by themselves, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skyline.analysis.lines import LineCost
from skyline.graph.build import main_lane
from skyline.trace.profile import Profile

_WORTH_SAYING = 0.05
"""Of the iteration: less is not worth a sentence."""
_MOST = 3


def line_notes(profile: Profile, lines: Sequence[LineCost], iteration_ms: float) -> tuple[str, ...]:
    """Lines that do not run in every iteration, and work that happens where nothing is recorded."""
    return (*_now_and_then(profile, lines, iteration_ms), *_in_workers(profile, lines, iteration_ms))


def _now_and_then(profile: Profile, lines: Sequence[LineCost], iteration_ms: float) -> list[str]:
    """A line that ran in some of the recorded iterations is billed its share of an average one."""
    trace = profile.trace
    count, lane = len(trace.iterations), main_lane(trace)
    notes: list[str] = []
    for line in lines:
        if not line.file or line.frequency >= 1 or count < 2:
            continue
        numbers = {i for i, row in enumerate(trace.lines) if (row.file, row.line) == (line.file, line.line)}
        times: dict[int, float] = {}
        for record in trace.records:
            if record.line in numbers and record.lane == lane:
                times[record.iteration] = times.get(record.iteration, 0.0) + record.duration_us / 1e3
        longest = max(times.values(), default=0.0)
        if longest >= _WORTH_SAYING * iteration_ms:
            notes.append(
                f"{Path(line.file).name}:{line.line} ran in {len(times)} of {count} recorded iterations, "
                f"{longest:.3g} ms at most: its cost per iteration depends on how often it really runs."
            )
    return notes[:_MOST]


def _in_workers(profile: Profile, lines: Sequence[LineCost], iteration_ms: float) -> list[str]:
    workers = max((loader.num_workers for loader in profile.loaders), default=0)
    waiting = sum(line.data_ms for line in lines)
    if not workers or waiting < _WORTH_SAYING * iteration_ms:
        return []
    count = f"{workers} worker process{'es' if workers > 1 else ''}"
    return [
        (
            f"The batches come from {count}, whose lines are not recorded: the loop's wait for them is billed to "
            "the line that asks for the next batch. To see the dataset's own lines, profile with num_workers=0."
        )
    ]
