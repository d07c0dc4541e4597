"""The subject of questions about a trace of PyTorch's profiler: its graph, built and simulated once."""

from __future__ import annotations

import numpy as np

from skyline.errors import UsageError
from skyline.graph.from_kineto import built
from skyline.graph.graph import Graph
from skyline.interval import Interval, interval_of_series
from skyline.lazy_dataclass import dataclass
from skyline.simulate.engine import simulate
from skyline.trace.kineto.profiler_trace import ProfilerTrace
from skyline.whatif.composition import compose
from skyline.whatif.question import Choice
from skyline.whatif.recording import Recording, device_name, peak_bytes
from skyline.whatif.subject import Subject


def recorded(trace: ProfilerTrace) -> Subject:
    """The subject of a trace: its graph, built and simulated once.

    Raises:
        UsageError: nothing in the trace takes time.
    """
    kineto = built(trace)
    timeline = simulate(kineto.graph)
    if len(kineto.steps):
        steps_us = kineto.steps.measured_us
        simulated_us = kineto.steps.simulated_us(timeline.starts)
        counted = kineto.steps.inner
    else:
        end = kineto.start_us + kineto.graph.durations
        steps_us = np.array([float(end.max(initial=0.0) - kineto.start_us.min(initial=np.inf))])
        simulated_us = np.array([float(timeline.ends.max(initial=0.0) - timeline.starts.min(initial=0.0))])
        counted = slice(0, 1)
    if not steps_us[counted].max(initial=0.0) > 0:
        raise UsageError(
            "Nothing in this trace takes time: it holds no operators, calls or GPU work with a length",
            hint="Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].",
        )
    steps_ms: list[float] = (steps_us / 1e3).tolist()
    found = Recording(
        trace,
        kineto,
        timeline,
        tuple(steps_ms),
        tuple((simulated_us / 1e3).tolist()),
        counted,
        interval_of_series(steps_ms[counted]),
    )
    peak = peak_bytes(found)
    return Subject(
        graph=kineto.graph,
        outline=kineto.graph,
        lane=kineto.main,
        iteration_ms=found.iteration_ms,
        timeline=timeline,
        steps=found.steps,
        replay_error=found.replay_error,
        on_gpu=found.on_gpu,
        gpu_recorded=found.on_gpu,
        device_name=device_name(found),
        peak_bytes=None if peak is None else Interval.exact(float(peak)),
        recording=found,
    )


@dataclass(frozen=True, slots=True)
class RankWhatIf:
    """Changes to a rank's graph; the object can be sent to other processes."""

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
