"""A what-if that is asked of every rank of a job: waiting for one another follows from what each then does."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.errors import UsageError
from skyline.graph.graph import Graph
from skyline.trace.kineto.profiler_trace import ProfilerTrace
from skyline.whatif.composition import compose
from skyline.whatif.question import Choice
from skyline.whatif.recorded import recorded


@dataclass(frozen=True, slots=True)
class RankWhatIf:
    """Changes of a rank's graph that can be sent to other processes."""

    choices: tuple[Choice, ...]

    def __call__(self, trace: ProfilerTrace) -> Graph:
        """The changed graph of a trace.

        Raises:
            UsageError: a change does not apply to the rank.
        """
        composed = compose(recorded(trace), self.choices)
        if composed.reason:
            raise UsageError(composed.reason)
        return composed.scenario.graph
