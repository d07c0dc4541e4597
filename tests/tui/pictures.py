"""Timelines, live memory and earlier profiles, as a session answers with them; loaded by ``conftest.py``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from skyline.interval import Interval
from skyline.report.commit_history import HISTORY_SCHEMA, GrownLine, HistoryReport, StateReport
from skyline.report.diff import diff
from skyline.report.history import ComparisonReport, SavedProfile
from skyline.report.live_memory import LIVE_MEMORY_SCHEMA, LiveLine, LiveMemoryReport
from skyline.report.protocol import CompareParams, MemoryAtParams, TimelineParams
from skyline.report.schema import ProfileReport, VerdictReport
from skyline.report.timeline_report import TimelinePlace, TimelineReport
from skyline.report.timelines import Sides, TimelineWork, window
from skyline_tui import messages

VERDICT = VerdictReport(
    "The model's forward and backward passes take 80 % of the step.",
    "Fused optimizer step (fused=True): 1.03x (1.00–1.06x), modelled; same computation.",
    "fused_optimizer",
    True,
)


def made_sides(script: Path) -> Sides:
    """Two lanes: a forward and a backward piece in one, one after another, and a hundred small pieces in the other."""
    small = np.arange(100.0)
    lane = np.array([0, 0, *[1] * 100])
    start, end = np.array([0.0, 100.0, *small]), np.array([100.0, 180.0, *(small + 0.5)])
    label, phase = np.array([0, 1, *[2] * 100]), np.array([1, 2, *[1] * 100])
    place = np.array([0, 0, *[-1] * 100])

    def work(title: str, stretch: float) -> TimelineWork:
        return TimelineWork(
            title,
            180.0 * stretch,
            ("cpu:main", "stream 7"),
            lane,
            start * stretch,
            end * stretch,
            label,
            phase,
            place,
        )

    labels = ("aten::mm", "MmBackward0", "kernel")
    places = (TimelinePlace(str(script), 9),)
    return Sides(0, 1, work("measured, while recorded", 1.0), work("simulated", 1.01), labels, places)


def made_state(
    number: int, time_ms: float, change: float | None, verdict: str, *grown: GrownLine
) -> StateReport:
    """A state of the sources in a commit of its own."""
    return StateReport(
        profiles=(f"profile-{number}",),
        created=f"2026-11-1{number}T14:02:00+00:00",
        commit=f"{number}" * 40,
        committed=f"2026-11-1{number}T12:00:00+00:00",
        subject=f"change {number}",
        changed=False,
        batch_size=32,
        iteration_ms=Interval(time_ms, time_ms - 2, time_ms + 2),
        per_sample_ms=time_ms / 32,
        peak_bytes=10**9,
        change=change,
        verdict=verdict,
        peak_change=None if change is None else 0.0,
        grown=grown,
        busy=False,
    )


def made_history(script: str) -> HistoryReport:
    """Three commits, the second of which made the script slower."""
    grown = GrownLine(script, 9, "loss = model(x, y)", 90.0, 150.0)
    return HistoryReport(
        HISTORY_SCHEMA,
        script,
        (),
        "measured",
        "cpu",
        "2.7.1",
        (
            made_state(1, 120.0, None, ""),
            made_state(2, 180.0, 0.5, "slower", grown),
            made_state(3, 182.0, 0.011, "same"),
        ),
        0,
        ("profile-2",),
    )


@dataclass
class FakePictures:
    """The part of a session that pages other than the first one ask."""

    script: Path
    post: messages.Post
    profiles: int = 0
    timelines: list[TimelineParams] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    compared_profiles: list[CompareParams] = field(default_factory=list)

    def profile_at(self, batch_size: int) -> ProfileReport:
        """The profile at a batch size."""
        raise NotImplementedError

    async def timeline(self, asked: TimelineParams) -> TimelineReport:
        self.timelines.append(asked)
        return window(made_sides(self.script), asked.beginMs, asked.endMs, asked.most)

    async def memory_at(self, asked: MemoryAtParams) -> LiveMemoryReport:
        self.moments.append(asked.timeMs)
        line = LiveLine(str(self.script), 9, "loss = model(x, y)", "forward", 600_000_000, 12, 3.5)
        return LiveMemoryReport(
            LIVE_MEMORY_SCHEMA, asked.timeMs, 1_000_000_000, 400_000_000, (line,), other_bytes=0
        )

    async def history(self) -> tuple[SavedProfile, ...]:
        return tuple(
            SavedProfile(
                name, f"{name}.json.gz", f"2026-11-2{day}T14:02:00+00:00", "measured", "cpu", 32, time, 10**9
            )
            for name, day, time in ((f"profile-{self.profiles}", 1, 182.0), ("earlier", 0, 200.0))
        )

    async def commits(self) -> HistoryReport | None:
        return made_history(str(self.script.name))

    async def compare(self, asked: CompareParams) -> ComparisonReport:
        self.compared_profiles.append(asked)
        before, after = self.profile_at(48), self.profile_at(self.batch_size)
        return ComparisonReport(
            diff(before, after), "--- train.py\n+++ train.py\n-batch_size=48\n+batch_size=32\n"
        )
