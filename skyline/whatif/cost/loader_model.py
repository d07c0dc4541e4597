"""The time of an iteration if another number of processes makes its batches, and all share the cores."""

from __future__ import annotations

from math import inf

from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.predict.fetching_costs import FetchingCosts
from skyline.simulate.engine import simulate
from skyline.whatif.base import Scenario
from skyline.whatif.constant import Constant
from skyline.whatif.cost.contention import USUAL_CROWDING, Computing, contended_us, uncontended
from skyline.whatif.cost.thread_scaling import factors, split_in_loader, threads_of
from skyline.whatif.cost.worker_queue import fetching, loader_and_compute_us, roughly, with_queue
from skyline.whatif.loader_setting import LoaderSetting, longer, present_setting, threads_in
from skyline.whatif.subject import Subject

COSTS = FetchingCosts()
_NEVER_LESS_SURE = 0.05
_MOST_CROWDING = 1.9
_WELL_SPLIT = 0.6
_LONE_THREAD = 1.5
"""A worker computes with one thread; the script may split the same work over several."""
_CORES_ELSEWHERE = Constant.at(
    24,
    "cores with a predicted GPU: clouds rent out 24 to 26 virtual ones with each H100 (AWS p5, Google a3)",
)
_ALWAYS_WAITED = 0.05
"""The share of the iteration above which waiting means that the workers do not keep up."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The changed graph, with the best, likely and worst time of its iteration, in ms."""

    graph: Graph
    load_us: float
    best_ms: float
    likely_ms: float
    worst_ms: float


@dataclass(frozen=True, slots=True)
class _Work:
    """The time of an iteration's batches for one worker alone on a core, and the computing on them."""

    load_us: float
    computing: Computing


def inferred_load_us(baseline: Subject) -> float | None:
    """The time in µs of an iteration's batches for one worker, for a script that has workers; None if unknown.

    If the script always waits for its batches, the workers are always busy, and the batches that they deliver
    take all of their time. If it does not wait, they may be idle for any part of their time.
    """
    setting = present_setting(baseline)
    if baseline.script.timed_reads:
        return sum(read.took_us for read in baseline.script.timed_reads)
    waited_us, compute_us = loader_and_compute_us(baseline.outline, baseline.lane)
    taking_us = COSTS.taken_us(float(baseline.batch_bytes), len(baseline.batch_tensors))
    if setting.workers == 0 or waited_us - taking_us <= _ALWAYS_WAITED * (waited_us + compute_us):
        return None
    # The time grows with the load, so bisection finds the load with which these workers take the measured
    # time.
    low, high = 0.0, setting.workers * (waited_us + compute_us)
    for _ in range(40):
        middle = (low + high) / 2
        computing = _computing(baseline, Scenario.of(baseline), compute_us, middle, setting.workers)
        took = contended_us(middle, computing, workers=setting.workers, cores=cores_of(baseline))
        low, high = (middle, high) if took < waited_us + compute_us else (low, middle)
    return min((low + high) / 2, _most_load_us(baseline))


def workers_keep_up(baseline: Subject) -> bool:
    """True if the script's workers are idle for most of the time: then they do not set the pace."""
    told = inferred_load_us(baseline)
    waited_us, compute_us = loader_and_compute_us(baseline.outline, baseline.lane)
    return told is None or told < _IDLE.value * present_setting(baseline).workers * (waited_us + compute_us)


_IDLE = Constant.at(0.5, "an assumption: workers that are busy for less of the time than this keep up")


def _most_load_us(baseline: Subject) -> float:
    """The upper limit in µs for an iteration's batches in one worker, from the measured processor time.

    Beyond their own processor time, workers wait for a device or for a core. While they wait for a device, a
    core is idle. The wait for a core comes from sharing, and ends with it.
    """
    load, spent_us = baseline.script.load, busy_load_us(baseline)
    if load is None or not spent_us:
        return inf
    waited_us, compute_us = loader_and_compute_us(baseline.outline, baseline.lane)
    idle_cores = max(0.0, load.cores - load.own_cores - load.others_cores)
    return spent_us + idle_cores * (waited_us + compute_us)


def busy_load_us(baseline: Subject) -> float | None:
    """The time in µs of an iteration's batches in one worker, if the workers keep up; None if it was not measured.

    It follows from the processor time of the script's other processes while it was timed.
    """
    load = baseline.script.load
    if load is None or load.further_cores is None or baseline.script.mode == "predicted":
        return None
    waited_us, compute_us = loader_and_compute_us(baseline.outline, baseline.lane)
    return load.further_cores * (waited_us + compute_us)


def paced_by_workers(scenario: Scenario, standing: Graph, baseline: Subject) -> Scenario:
    """The scenario of a script that always waits for its workers, with the wait that remains after other changes.

    A longer wait replaces shorter work, down to the pace of the workers; on shared cores, the workers get
    more of them. ``standing`` is the graph with the batches of the scenario and no other change.
    """
    graph, workers = scenario.graph, present_setting(baseline).workers
    told = None if baseline.script.timed_reads else inferred_load_us(baseline)
    if told is None or graph is standing or workers_keep_up(baseline):
        return scenario
    now_ms, load_us = baseline.step_ms(graph), told * scenario.batch_factor(baseline)
    paced_ms = (
        max(now_ms, min(load_us / workers / 1e3, baseline.step_ms(standing)))
        if baseline.on_gpu
        else _paced_ms(baseline, standing, graph, load_us)
    )
    if abs(paced_ms - now_ms) <= _UNPACED.value * now_ms:
        return scenario
    return scenario.changed(
        _waiting(baseline, graph, paced_ms),
        # The workers' own time was inferred; in the best case the wait stays as it is.
        below_ms=max(0.0, paced_ms - now_ms),
        assumptions=(_PACED.format(workers=workers),),
    )


def _paced_ms(baseline: Subject, standing: Graph, graph: Graph, load_us: float) -> float:
    """The iteration time in ms if work and wait change as they do on shared cores."""
    waited_us, before_us = loader_and_compute_us(standing, baseline.lane)
    _, after_us = loader_and_compute_us(graph, baseline.lane)
    if before_us <= 0 or after_us == before_us:
        return baseline.step_ms(graph)
    workers, cores = present_setting(baseline).workers, cores_of(baseline)
    alone = _computing(baseline, Scenario.of(baseline), before_us, load_us, workers)
    changed = Computing(alone.total_us * after_us / before_us, alone.use, alone.threads)
    took_us, takes_us = (contended_us(load_us, one, workers=workers, cores=cores) for one in (alone, changed))
    return (waited_us + before_us) * takes_us / took_us / 1e3 if took_us > 0 else baseline.step_ms(graph)


def _waiting(baseline: Subject, graph: Graph, step_ms: float) -> Graph:
    """The graph with its waits for batches set to reach ``step_ms``, and scaled for any remaining difference."""
    waited_us, _ = loader_and_compute_us(graph, baseline.lane)
    fetches = len(select(graph, kind=TaskKind.DATA, lane=baseline.lane)) / max(1, len(graph.iterations))
    waits_us = max(0.0, waited_us + 1e3 * (step_ms - baseline.step_ms(graph)))
    waiting = fetching(graph, baseline.lane, waits_us / max(1.0, fetches))
    return longer(waiting, baseline, step_ms - baseline.step_ms(waiting))


_UNPACED = Constant.at(0.001, "an assumption: a smaller difference is rounding")
_PACED = "the script waits for its {workers} loader workers: they set the pace when the rest becomes shorter"


def reloaded(scenario: Scenario, baseline: Subject, setting: LoaderSetting) -> Reloaded:
    """The graph simulated until the queues are steady, with all work then stretched to the limits of the cores."""
    graph = roughly(scenario.graph)
    work = _work(scenario, baseline, graph)
    size_bytes = baseline.batch_bytes * scenario.batch_factor(baseline)
    if setting.workers == 0:
        return _in_the_script(baseline, graph, work)
    tensors = len(baseline.batch_tensors)
    receive_us, send_us = COSTS.taken_us(size_bytes, tensors), COSTS.sent_us(size_bytes, tensors)
    fetches = len(select(graph, kind=TaskKind.DATA, lane=baseline.lane)) / max(1, len(graph.iterations))
    moved = with_queue(
        _computed(graph, baseline, work.computing.total_us),
        baseline.lane,
        workers=setting.workers,
        prefetch=setting.prefetch,
        making_us=work.load_us / max(1.0, fetches) + send_us,
        receive_us=receive_us,
        varied=_varied(baseline),
    )
    free_ms = simulate(moved).iteration_ms(baseline.lane, skip=len(moved.iterations) // 2)
    computing = Computing(
        work.computing.total_us + receive_us * fetches, work.computing.use, work.computing.threads
    )
    sending_us = send_us * fetches
    best_ms = max(free_ms, core_bound_ms(baseline, work.computing, work.load_us))
    likely_ms = max(best_ms, _shared_ms(baseline, work.load_us + sending_us, computing, setting.workers))
    slow_us = _LONE_THREAD * work.load_us + sending_us
    worst_ms = max(best_ms, _shared_ms(baseline, slow_us, computing, setting.workers, _MOST_CROWDING))
    # Times measured with busy workers already contain the cost of these workers.
    now_ms, now = baseline.iteration_ms.value, present_setting(baseline).workers
    already = _beside_busy(work.load_us + sending_us, now_ms, now)
    likely_ms *= _beside_busy(work.load_us + sending_us, likely_ms, setting.workers) / already
    worst_ms *= _beside_busy(slow_us, worst_ms, setting.workers) ** 2 / already
    return Reloaded(
        scale(moved, select(moved), likely_ms / free_ms if free_ms else 1.0, gaps=True),
        work.load_us,
        min(best_ms, (1 - _NEVER_LESS_SURE) * likely_ms),
        likely_ms,
        max(worst_ms, (1 + _NEVER_LESS_SURE) * likely_ms),
    )


def cores_of(baseline: Subject) -> int:
    """The number of cores that the script may use; with a predicted GPU, an assumed number."""
    environment = baseline.script.environment
    if baseline.script.mode == "predicted" and environment.device.kind != "cpu":
        return round(_CORES_ELSEWHERE.value)
    return max(1, environment.cpu_count)


def _work(scenario: Scenario, baseline: Subject, graph: Graph) -> _Work:
    """The loading and the computing of an iteration, each by itself, whoever makes the batches now."""
    in_loader_us, compute_us = loader_and_compute_us(graph, baseline.lane)
    now = present_setting(baseline).workers
    if now == 0:
        alone_us = max(0.0, in_loader_us - _joining_us(scenario, baseline))
        return _Work(alone_us, _computing(baseline, scenario, compute_us, 0.0, 0))
    told = inferred_load_us(baseline)
    load_us = (busy_load_us(baseline) or 0.0 if told is None else told) * scenario.batch_factor(baseline)
    return _Work(load_us, _computing(baseline, scenario, compute_us, load_us, now))


def _joining_us(scenario: Scenario, baseline: Subject) -> float:
    """The additional time of the loader on the script's threads, compared with the single thread of a worker, in µs."""
    if threads_in(scenario, baseline) < 2:
        return 0.0
    chosen, divisions = split_in_loader(baseline, baseline.operators, 1)
    if not len(chosen):
        return 0.0
    times_us = baseline.operators.durations[chosen]
    on_one, _, _ = factors(divisions, times_us, threads_of(baseline), 1)
    return float((times_us * (1 - on_one)).sum()) / baseline.steps * scenario.batch_factor(baseline)


def _computing(
    baseline: Subject, scenario: Scenario, compute_us: float, load_us: float, workers: int
) -> Computing:
    threads = threads_in(scenario, baseline)
    if workers == 0:
        return Computing(compute_us, baseline.thread_use, threads)
    asked = uncontended(
        compute_us,
        baseline.thread_use,
        threads_in(Scenario.of(baseline), baseline),
        load_us=load_us,
        workers=workers,
        cores=cores_of(baseline),
    )
    return Computing(asked.total_us, asked.use, threads)


def _computed(graph: Graph, baseline: Subject, compute_us: float) -> Graph:
    """The graph with ``compute_us`` per iteration for the script's own work without the loader."""
    _, now_us = loader_and_compute_us(graph, baseline.lane)
    own = select(graph, lane=baseline.lane)
    return scale(graph, own, compute_us / now_us, gaps=True) if now_us > 0 else graph


def _in_the_script(baseline: Subject, graph: Graph, work: _Work) -> Reloaded:
    fetches = len(select(graph, kind=TaskKind.DATA, lane=baseline.lane)) / max(1, len(graph.iterations))
    alone = _computed(graph, baseline, work.computing.total_us)
    changed = fetching(alone, baseline.lane, work.load_us / max(1.0, fetches))
    likely_ms = baseline.step_ms(changed)
    # The script may split the work over several threads, and make a batch faster than a worker does.
    best_ms = likely_ms - (1 - 1 / _LONE_THREAD) * work.load_us / 1e3
    return Reloaded(
        changed,
        work.load_us,
        min(best_ms, (1 - _NEVER_LESS_SURE) * likely_ms),
        likely_ms,
        (1 + 2 * _NEVER_LESS_SURE) * likely_ms,
    )


def _varied(baseline: Subject) -> tuple[float, ...]:
    """The ratios of the times of single batches to the typical one; empty if the script does not make them itself.

    Each time is divided by the rest of its step, so that a temporary slowdown of the machine has no effect.
    """
    if present_setting(baseline).workers or baseline.script.mode == "predicted":
        return ()
    times = baseline.script.times
    shares = [
        data / (step - data) for data, step in zip(times.data_ms, times.steps_ms, strict=False) if step > data
    ]
    typical = median(shares) if shares else 0.0
    return tuple(share / typical for share in shares) if typical > 0 else ()


def _beside_busy(load_us: float, iteration_ms: float, workers: int) -> float:
    """The factor on the time of work while other cores are busy: caches, memory and clocks are shared."""
    busy = min(float(workers), load_us / (1e3 * iteration_ms)) if iteration_ms > 0 else 0.0
    return 1 + COSTS.slowdown_beside_one * busy


def core_bound_ms(baseline: Subject, computing: Computing, load_us: float) -> float:
    """The least time in ms: all work divided by all cores, with split operators keeping 0.6 of their cores busy."""
    cores = cores_of(baseline)
    extra = min(cores, computing.threads) - 1
    busy_us = computing.total_us * (1 + computing.use.split * extra * _WELL_SPLIT) + load_us
    return busy_us / cores / 1e3


def _shared_ms(
    baseline: Subject,
    load_us: float,
    computing: Computing,
    workers: int,
    contention_penalty: float = USUAL_CROWDING,
) -> float:
    cores = cores_of(baseline)
    return (
        contended_us(load_us, computing, workers=workers, cores=cores, contention_penalty=contention_penalty)
        / 1e3
    )
