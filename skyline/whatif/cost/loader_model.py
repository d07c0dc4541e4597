"""An iteration with its batches made by another number of processes, and the cores shared among all."""

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
"""A worker computes with one thread what the script may have split over several."""
_CORES_ELSEWHERE = Constant.at(
    24,
    "cores with a predicted GPU: clouds rent out 24 to 26 virtual ones with each H100 (AWS p5, Google a3)",
)
_ALWAYS_WAITED = 0.05
"""The share of the iteration from which on waiting means that the workers do not keep up."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The changed graph, with what an iteration takes in it at best, likely and at worst, in ms."""

    graph: Graph
    load_us: float
    best_ms: float
    likely_ms: float
    worst_ms: float


@dataclass(frozen=True, slots=True)
class _Work:
    """Time of an iteration's batches for one worker alone on a core, and what is computed on them."""

    load_us: float
    computing: Computing


def inferred_load_us(baseline: Subject) -> float | None:
    """Time of an iteration's batches for one worker, for a script that has workers; None where nothing tells it.

    Where the script waits for its batches all the time the workers are always busy, and so many batches as they
    deliver take all of their time. Where it does not wait they may be idle for any part of theirs.
    """
    setting = present_setting(baseline)
    if baseline.script.timed_reads:
        return sum(read.took_us for read in baseline.script.timed_reads)
    waited_us, compute_us = loader_and_compute_us(baseline.outline, baseline.lane)
    taking_us = COSTS.taken_us(float(baseline.batch_bytes), len(baseline.batch_tensors))
    if setting.workers == 0 or waited_us - taking_us <= _ALWAYS_WAITED * (waited_us + compute_us):
        return None
    # The load with which these workers take as long as was measured: it grows with it, so halving finds it.
    low, high = 0.0, setting.workers * (waited_us + compute_us)
    for _ in range(40):
        middle = (low + high) / 2
        computing = _computing(baseline, Scenario.of(baseline), compute_us, middle, setting.workers)
        took = contended_us(middle, computing, workers=setting.workers, cores=cores_of(baseline))
        low, high = (middle, high) if took < waited_us + compute_us else (low, middle)
    return min((low + high) / 2, _most_load_us(baseline))


def workers_keep_up(baseline: Subject) -> bool:
    """True if the script's workers are idle for most of the time: they do not set the pace, whatever it waits for."""
    told = inferred_load_us(baseline)
    waited_us, compute_us = loader_and_compute_us(baseline.outline, baseline.lane)
    return told is None or told < _IDLE.value * present_setting(baseline).workers * (waited_us + compute_us)


_IDLE = Constant.at(0.5, "an assumption: workers that are busy for less of the time than this keep up")


def _most_load_us(baseline: Subject) -> float:
    """The most that an iteration's batches can take in one worker, by the processor time that was measured.

    Beyond their own processor time, workers wait for a device or for a core. While they wait for a device a core
    has nothing to do; the wait for a core comes from sharing, and goes with it.
    """
    load, spent_us = baseline.script.load, busy_load_us(baseline)
    if load is None or not spent_us:
        return inf
    waited_us, compute_us = loader_and_compute_us(baseline.outline, baseline.lane)
    idle_cores = max(0.0, load.cores - load.own_cores - load.others_cores)
    return spent_us + idle_cores * (waited_us + compute_us)


def busy_load_us(baseline: Subject) -> float | None:
    """Time of an iteration's batches in one worker of a script whose workers keep up; None where nothing measured it.

    The processor time of the script's further processes while it was timed, as a part of that time.
    """
    load = baseline.script.load
    if load is None or load.further_cores is None or baseline.script.mode == "predicted":
        return None
    waited_us, compute_us = loader_and_compute_us(baseline.outline, baseline.lane)
    return load.further_cores * (waited_us + compute_us)


def paced_by_workers(scenario: Scenario, standing: Graph, baseline: Subject) -> Scenario:
    """The scenario of a script that always waits for its workers, with the wait that other changes leave.

    A longer wait takes the place of shorter work, down to the pace of the workers; on cores that both share
    they have more of them. ``standing`` is the graph with the batches of the scenario and nothing else changed.
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
        # The workers' own time was inferred: at best the wait stays as it is.
        below_ms=max(0.0, paced_ms - now_ms),
        assumptions=(_PACED.format(workers=workers),),
    )


def _paced_ms(baseline: Subject, standing: Graph, graph: Graph, load_us: float) -> float:
    """The iteration whose work and wait change as they do where both share the cores."""
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
    """The graph with as much waiting for batches as makes it so long, and its work in proportion beyond that."""
    waited_us, _ = loader_and_compute_us(graph, baseline.lane)
    fetches = len(select(graph, kind=TaskKind.DATA, lane=baseline.lane)) / max(1, len(graph.iterations))
    waits_us = max(0.0, waited_us + 1e3 * (step_ms - baseline.step_ms(graph)))
    waiting = fetching(graph, baseline.lane, waits_us / max(1.0, fetches))
    return longer(waiting, baseline, step_ms - baseline.step_ms(waiting))


_UNPACED = Constant.at(0.001, "an assumption: a smaller difference is rounding")
_PACED = "the script waits for its {workers} loader workers: they set the pace when the rest becomes shorter"


def reloaded(scenario: Scenario, baseline: Subject, setting: LoaderSetting) -> Reloaded:
    """Simulate until the queues are in their steady state, then stretch all work to what the cores can do."""
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
    """Apart from one another, whoever makes the batches now."""
    in_loader_us, compute_us = loader_and_compute_us(graph, baseline.lane)
    now = present_setting(baseline).workers
    if now == 0:
        alone_us = max(0.0, in_loader_us - _joining_us(scenario, baseline))
        return _Work(alone_us, _computing(baseline, scenario, compute_us, 0.0, 0))
    told = inferred_load_us(baseline)
    load_us = (busy_load_us(baseline) or 0.0 if told is None else told) * scenario.batch_factor(baseline)
    return _Work(load_us, _computing(baseline, scenario, compute_us, load_us, now))


def _joining_us(scenario: Scenario, baseline: Subject) -> float:
    """Additional time of the loader on the script's threads, compared with a worker's only one."""
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
    """With so much time for the script's own work besides the loader."""
    _, now_us = loader_and_compute_us(graph, baseline.lane)
    own = select(graph, lane=baseline.lane)
    return scale(graph, own, compute_us / now_us, gaps=True) if now_us > 0 else graph


def _in_the_script(baseline: Subject, graph: Graph, work: _Work) -> Reloaded:
    fetches = len(select(graph, kind=TaskKind.DATA, lane=baseline.lane)) / max(1, len(graph.iterations))
    alone = _computed(graph, baseline, work.computing.total_us)
    changed = fetching(alone, baseline.lane, work.load_us / max(1.0, fetches))
    likely_ms = baseline.step_ms(changed)
    # Split over several threads the script may make a batch faster than a worker does.
    best_ms = likely_ms - (1 - 1 / _LONE_THREAD) * work.load_us / 1e3
    return Reloaded(
        changed,
        work.load_us,
        min(best_ms, (1 - _NEVER_LESS_SURE) * likely_ms),
        likely_ms,
        (1 + 2 * _NEVER_LESS_SURE) * likely_ms,
    )


def _varied(baseline: Subject) -> tuple[float, ...]:
    """Ratios of single batches to the typical one: measured where the script makes them itself.

    Each is set against the rest of its step, so that a machine that slows down for a while counts for nothing.
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
    """Factor on work while other cores are busy: caches, memory and clocks are shared."""
    busy = min(float(workers), load_us / (1e3 * iteration_ms)) if iteration_ms > 0 else 0.0
    return 1 + COSTS.slowdown_beside_one * busy


def core_bound_ms(baseline: Subject, computing: Computing, load_us: float) -> float:
    """No schedule beats all work divided by all cores, with split operators keeping 0.6 of their cores busy."""
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
