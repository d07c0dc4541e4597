"""Loader workers in a trace of PyTorch's profiler: whether they make sense, and the trace with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from skyline.errors import UsageError
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.whatif.base import Applicability
from skyline.whatif.cost.fetching import with_workers
from skyline.whatif.loader_setting import LoaderSetting
from skyline.whatif.recording import Recording
from skyline.whatif.scenario import Scenario
from skyline.whatif.trace_facts import has_loader_workers

_NEVER_LESS_SURE = 0.05


def enough_workers(recording: Recording, counts: Sequence[int]) -> Applicability:
    """Applicable where the script's thread makes batches; by default with as many workers as keep up."""
    if has_loader_workers(recording):
        return Applicability.no("the DataLoader already has workers")
    load_ms = _loading_ms(recording)
    if load_ms <= 0 or not recording.has_steps:
        return Applicability.no("no DataLoader makes batches on the script's thread")
    rest_ms = max(recording.iteration_ms.value - load_ms, 0.01 * load_ms)
    needed = min(16, ceil(load_ms / rest_ms) + 1)
    return Applicability(True, values=tuple(map(str, counts)), default=str(needed))


def made_by_workers(scenario: Scenario, workers: int, recording: Recording) -> Scenario:
    """Batches come from workers that work ahead; what that costs was measured on another machine."""
    if workers == 0:
        return scenario
    first, last = recording.ends_in(scenario.graph)
    kineto = replace(
        recording.kineto,
        graph=scenario.graph,
        event=scenario.graph.tasks.origin,
        steps=replace(recording.kineto.steps, first=first, last=last),
    )
    ahead = LoaderSetting(workers).asked(scenario).prefetch
    try:
        answer = with_workers(recording.trace, kineto, workers, prefetch=ahead)
    except UsageError:
        return scenario
    step_ms = recording.iteration_ms.value
    # On a CPU the workers take cores from the computation; how many there are, the trace does not tell.
    load_ms = _loading_ms(recording)
    return scenario.changed(
        answer.graph,
        below_ms=min(load_ms, _NEVER_LESS_SURE * step_ms),
        above_ms=_NEVER_LESS_SURE * step_ms if recording.on_gpu else load_ms,
        assumptions=(
            f"a worker needs as long for a batch as the script does now, {answer.loading_us / 1e3:.1f} ms",
            f"each worker has a core, and {answer.busy_workers:.1f} are busy at a time: no trace tells the cores",
            "taking a batch from a worker costs what it did on another machine",
        ),
    )


def _loading_ms(recording: Recording) -> float:
    """Time per step that the script's thread takes to make batches, in ms."""
    graph = recording.graph
    chosen = select(graph, kind=TaskKind.DATA, lane=recording.lane)
    return float(graph.durations[chosen].sum()) / recording.steps / 1e3
