"""What a simulation gives: when every task runs."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.graph.graph import Graph


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Start and end of each task in µs from the start of the first; a gap follows its task's end."""

    graph: Graph
    starts: tuple[float, ...]
    ends: tuple[float, ...]

    @property
    def makespan_us(self) -> float:
        """From the first start to the end of the last task and its gap."""
        return max((end + gap for end, gap in zip(self.ends, self.graph.gaps, strict=True)), default=0.0)

    def iteration_ends_us(self, lane: str | None = None) -> tuple[float, ...]:
        """When the work of each iteration is over, on one lane or on all."""
        ends: dict[int, float] = {}
        for task, end, gap in zip(self.graph.tasks, self.ends, self.graph.gaps, strict=True):
            if lane is None or task.lane == lane:
                ends[task.iteration] = max(ends.get(task.iteration, 0.0), end + gap)
        return tuple(ends[iteration] for iteration in sorted(ends))

    def iteration_ms(self, lane: str, skip: int = 1) -> float:
        """Milliseconds per iteration of ``lane`` in the steady state: the first ``skip`` ones are run-in."""
        ends = self.iteration_ends_us(lane)
        if not ends:
            return 0.0
        skip = min(skip, len(ends) - 1)
        if skip == 0:
            return ends[-1] / len(ends) / 1e3
        return (ends[-1] - ends[skip - 1]) / (len(ends) - skip) / 1e3

    def utilisation(self) -> dict[str, float]:
        """The share of the makespan in which each lane is busy, gaps of CPU lanes included."""
        span = self.makespan_us
        busy = dict.fromkeys(self.graph.structure.lanes, 0.0)
        for task, duration, gap in zip(self.graph.tasks, self.graph.durations, self.graph.gaps, strict=True):
            busy[task.lane] += duration + gap
        return {lane: min(1.0, time / span) if span else 0.0 for lane, time in busy.items()}
