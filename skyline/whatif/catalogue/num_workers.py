"""What if worker processes made the batches while the script computes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from skyline.errors import UsageError
from skyline.graph.coalescing import coalesce
from skyline.graph.dependency import Cause, Dependency
from skyline.graph.graph import Graph
from skyline.graph.insertion import Insertion, insert
from skyline.graph.scaling import scale
from skyline.graph.selection import select
from skyline.graph.stitching import stitch
from skyline.graph.task import TaskKind
from skyline.graph.tasks import KIND
from skyline.simulate.engine import simulate
from skyline.whatif.base import Applicability, Basis, Grain, Scenario, Semantics, Stage, Subject
from skyline.whatif.baseline import Baseline
from skyline.whatif.cost.contention import contended_us
from skyline.whatif.cost.fetching import with_workers
from skyline.whatif.recording import Recording, ends_in
from skyline.whatif.subject import NEEDS_PROFILE
from skyline.whatif.trace_facts import has_loader_workers
from skyline.whatif.whole_number import whole_number

_PREFETCH = 2
"""Batches that each worker prepares ahead: DataLoader's default ``prefetch_factor``."""
_HAND_OVER_US = 200.0
"""Receiving a batch from a worker: waking up and unpickling what describes it."""
_MAPPED_BYTES_PER_US = 8000.0
"""The receiver copies nothing, it maps the shared memory page by page."""
_WRITTEN_BYTES_PER_US = 2000.0
"""The worker writes the batch into shared memory, 1 to 3 GB/s."""
_CACHES_AND_CLOCKS = 1.04
"""Work slows down a little beside other busy cores: operators took 5 to 30 % longer in measured pairs."""
_NEVER_LESS_SURE = 0.05
_WELL_SPLIT = 0.6
_VALUES = (1, 2, 4, 8, 16)
_LONE_THREAD = 1.5
"""A worker computes with one thread what the script may have split over several."""


@dataclass(frozen=True, slots=True)
class NumWorkers:
    """Moves the loader's work to lanes of its own, and keeps the sum of all work within the cores there are."""

    name: str = "num_workers"
    semantics: Semantics = Semantics.EXACT
    stage: Stage = Stage.LOADING
    grain: Grain = Grain.PHASES
    excludes: tuple[str, ...] = ()

    def title(self, value: str) -> str:
        """What the change does, in a few words."""
        workers = value or "some"
        return f"load batches in {workers} worker process{'es' if value != '1' else ''}"

    def basis(self, subject: Subject) -> Basis:
        """A measured pair of traces was recorded on a GPU; on busy cores pairs are few, and one shaped the model."""
        measured = isinstance(subject, Recording) and subject.on_gpu
        return Basis.GPU_TRACE_PAIR if measured else Basis.MODEL_ONLY

    def detect(self, subject: Subject) -> Applicability:
        """Applicable where a loader without workers takes part of the iteration."""
        if isinstance(subject, Recording):
            return _detect_in(subject)
        if not isinstance(subject, Baseline):
            return Applicability.no(NEEDS_PROFILE)
        baseline = subject
        loaders = baseline.profile.loaders
        if not loaders:
            return Applicability.no("no DataLoader delivers the batches")
        busy = [loader for loader in loaders if loader.num_workers]
        if busy:
            return Applicability.no(f"the DataLoader already has {busy[0].num_workers} workers")
        load, compute = _loader_and_compute_us(baseline.outline, baseline.lane)
        if load <= 0:
            return Applicability.no("the DataLoader takes no measurable time")
        cores = max(1, baseline.profile.environment.cpu_count)
        enough = min(cores, max(1, ceil(0.98 * load / compute))) if compute > 0 else cores
        values = tuple(str(count) for count in _VALUES if count <= cores)
        return Applicability(True, values=values, default=str(enough))

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Simulate until the queues are in their steady state, then stretch all work to what the cores can do."""
        workers = whole_number(self.name, value)
        if isinstance(subject, Recording):
            return _transform_in(scenario, workers, subject)
        assert isinstance(subject, Baseline)
        baseline = subject
        graph = scenario.graph if len(scenario.graph.structure.lanes) > 1 else _roughly(scenario.graph)
        needed = 2 * _PREFETCH * workers + 4
        size = self._batch_bytes(scenario, baseline)
        receive_us, send_us = _HAND_OVER_US + size / _MAPPED_BYTES_PER_US, size / _WRITTEN_BYTES_PER_US
        moved = _with_workers(stitch(graph, needed), baseline.lane, workers, receive_us, send_us)
        run_in = len(moved.iterations) // 2
        free_ms = simulate(moved).iteration_ms(baseline.lane, skip=run_in)
        load_us, compute_us = _loader_and_compute_us(graph, baseline.lane)
        best_ms = max(free_ms, _core_bound_ms(baseline, load_us, compute_us))
        likely_ms = _CACHES_AND_CLOCKS * max(
            best_ms, _contended_ms(baseline, load_us + send_us, compute_us + receive_us, workers)
        )
        slower_us = _LONE_THREAD * load_us + send_us
        worst_ms = _CACHES_AND_CLOCKS**2 * max(
            best_ms, _contended_ms(baseline, slower_us, compute_us + receive_us, workers)
        )
        return scenario.changed(
            scale(moved, select(moved), likely_ms / free_ms if free_ms else 1.0, gaps=True),
            below_ms=max(likely_ms - best_ms, _NEVER_LESS_SURE * likely_ms),
            above_ms=max(worst_ms - likely_ms, _NEVER_LESS_SURE * likely_ms),
            assumptions=(
                f"a worker needs as long for a batch as the script does now, {load_us / 1e3:.1f} ms",
                _sharing(baseline, workers),
                "starting the workers, once per epoch, is not counted",
            ),
        )

    def _batch_bytes(self, scenario: Scenario, baseline: Baseline) -> float:
        if scenario.batch_size and baseline.profile.batch_size:
            return baseline.batch_bytes * scenario.batch_size / baseline.profile.batch_size
        return float(baseline.batch_bytes)


def _roughly(graph: Graph) -> Graph:
    """With one task for each stretch of loading and of all else, which is all that queues of batches notice."""
    tasks = graph.tasks
    return coalesce(graph, (tasks.iteration, tasks.kind == KIND[TaskKind.DATA]))


def _loader_and_compute_us(graph: Graph, lane: str) -> tuple[float, float]:
    """Per iteration: time on the lane inside loaders, and all other time."""
    tasks = graph.tasks
    times_us = graph.durations + graph.gaps
    on_lane = tasks.lane == tasks.lane_code(lane)
    loading = tasks.kind == KIND[TaskKind.DATA]
    count = max(1, len(graph.iterations))
    return (
        float(times_us[on_lane & loading].sum()) / count,
        float(times_us[on_lane & ~loading].sum()) / count,
    )


def _with_workers(graph: Graph, lane: str, workers: int, receive_us: float, send_us: float) -> Graph:
    """Batch number k is made on worker lane k mod ``workers`` and waited for where it was fetched.

    A worker starts a batch when the one ``_PREFETCH`` of its own batches ago has been taken from its queue.
    """
    fetches = select(graph, kind=TaskKind.DATA, lane=lane)
    durations, gaps = graph.durations.copy(), graph.gaps.copy()
    durations[fetches], gaps[fetches] = receive_us, 0.0
    loads: list[Insertion] = []
    waits: list[Dependency] = []
    loading_us: list[float] = (graph.durations + graph.gaps)[fetches].tolist()
    for number, fetch in enumerate(map(int, fetches)):
        worker = replace(graph.tasks[fetch], name="load", lane=f"worker {number % workers}")
        loads.append(Insertion(worker, loading_us[number] + send_us, after=fetch - 1))
        load = len(graph) + number
        waits.append(Dependency(load, fetch, Cause.LOADER))
        if number >= _PREFETCH * workers:
            waits.append(Dependency(int(fetches[number - _PREFETCH * workers]), load, Cause.LOADER))
    return insert(graph.with_times(durations, gaps), loads, waits)


def _core_bound_ms(baseline: Baseline, load_us: float, compute_us: float) -> float:
    """No schedule beats all work divided by all cores, with split operators keeping 0.6 of their cores busy."""
    cores = max(1, baseline.profile.environment.cpu_count)
    extra = min(cores, _threads(baseline)) - 1
    busy_us = compute_us * (1 + baseline.parallel_share * extra * _WELL_SPLIT) + load_us
    return busy_us / cores / 1e3


def _contended_ms(baseline: Baseline, load_us: float, compute_us: float, workers: int) -> float:
    return (
        contended_us(
            load_us,
            compute_us,
            workers=workers,
            cores=max(1, baseline.profile.environment.cpu_count),
            threads=_threads(baseline),
            parallel_share=baseline.parallel_share,
        )
        / 1e3
    )


def _threads(baseline: Baseline) -> int:
    """Threads that an operator is split over; on a GPU machine the script's thread only launches."""
    return 1 if baseline.on_gpu else max(1, baseline.profile.environment.intraop_threads)


def _sharing(baseline: Baseline, workers: int) -> str:
    cores, threads = baseline.profile.environment.cpu_count, _threads(baseline)
    if threads + workers <= cores:
        return f"workers and computing share {cores} cores"
    return f"{threads} computing threads and {workers} workers share {cores} cores and hold each other up"


def _detect_in(recording: Recording) -> Applicability:
    """By default with as many workers as keep up."""
    if has_loader_workers(recording):
        return Applicability.no("the DataLoader already has workers")
    load_ms = _loading_ms(recording)
    if load_ms <= 0 or not recording.has_steps:
        return Applicability.no("no DataLoader makes batches on the script's thread")
    rest_ms = max(recording.iteration_ms.value - load_ms, 0.01 * load_ms)
    needed = min(16, ceil(load_ms / rest_ms) + 1)
    return Applicability(True, values=tuple(map(str, _VALUES)), default=str(needed))


def _transform_in(scenario: Scenario, workers: int, recording: Recording) -> Scenario:
    """Batches come from workers that work ahead; what that costs was measured on another machine."""
    first, last = ends_in(recording, scenario.graph)
    kineto = replace(
        recording.kineto,
        graph=scenario.graph,
        event=scenario.graph.tasks.origin,
        steps=replace(recording.kineto.steps, first=first, last=last),
    )
    try:
        answer = with_workers(recording.trace, kineto, workers)
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


WHATIF = NumWorkers()
