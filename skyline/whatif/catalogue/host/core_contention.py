"""Another number of computing threads in a script whose loader has workers: who has which core."""

from __future__ import annotations

from skyline.graph.graph import Graph
from skyline.whatif.cost.contention import Computing, contended_us, uncontended
from skyline.whatif.cost.loader_model import cores_of, inferred_load_us
from skyline.whatif.cost.worker_queue import loader_and_compute_us
from skyline.whatif.epoch_start import longer
from skyline.whatif.loader_setting import present_setting, threads_in
from skyline.whatif.scenario import Scenario
from skyline.whatif.subject import Subject

_OF_THE_TIME = (0.0, 0.5, 1.0)
"""Workers that keep up may be busy for any part of the time: half of it is what is likely."""


def core_contention(scenario: Scenario, before: Graph, baseline: Subject, threads: int) -> Scenario:
    """The scenario, whose operators take what they take on ``threads`` threads, with the cores shared again.

    ``before`` is the graph with the operators as they were. Were it not for the workers nothing would change here.
    """
    workers, cores = present_setting(baseline).workers, cores_of(baseline)
    now = threads_in(Scenario.of(baseline), baseline)
    if max(now, threads) + workers <= cores:
        return scenario
    waited_us, before_us = loader_and_compute_us(before, baseline.lane)
    _, after_us = loader_and_compute_us(scenario.graph, baseline.lane)
    told = inferred_load_us(baseline)
    loads = [share * workers * before_us for share in _OF_THE_TIME] if told is None else [told]
    ways: list[float] = []
    for load_us in loads:
        alone = uncontended(
            before_us, baseline.thread_use, now, load_us=load_us, workers=workers, cores=cores
        )
        changed = Computing(alone.total_us * after_us / before_us if before_us else 0.0, alone.use, threads)
        ways.append(contended_us(load_us, changed, workers=workers, cores=cores))
    likely_us = ways[len(ways) // 2]
    kept_us = waited_us if told is None else 0.0
    return scenario.changed(
        longer(scenario.graph, baseline, (likely_us + kept_us - waited_us - after_us) / 1e3),
        below_ms=(likely_us - min(ways)) / 1e3,
        above_ms=(max(ways) - likely_us) / 1e3,
        assumptions=(
            f"{threads} threads and {workers} loader workers share {cores} cores"
            + (", and the workers are busy half of the time" if told is None else ""),
        ),
    )
