"""What if operators on the CPU were split over another number of threads."""

from __future__ import annotations

from math import hypot

import numpy as np

from skyline.graph.graph import Graph, scale
from skyline.interval import Interval, median
from skyline.lazy_dataclass import dataclass
from skyline.trace.trial import Choices
from skyline.whatif.base import (
    Applicability,
    Provenance,
    Scenario,
    Stage,
    Subject,
    UsualWhatIf,
)
from skyline.whatif.catalogue.models.fused_optimizer import FOREACH
from skyline.whatif.catalogue.models.sparse_embedding import sparse_work
from skyline.whatif.constant import Constant
from skyline.whatif.cost.contention import Computing, contended_us, uncontended
from skyline.whatif.cost.loader_model import busy_load_us, cores_of, inferred_load_us, workers_keep_up
from skyline.whatif.cost.thread_scaling import factors, split_in_loader, split_tasks
from skyline.whatif.cost.worker_queue import loader_and_compute_us
from skyline.whatif.loader_setting import longer, present_setting, threads_in
from skyline.whatif.number_formats import NARROW
from skyline.whatif.question import whole_number

_OF_THE_TIME = (0.0, 0.5, 1.0)
"""Assumed busy shares of the time for workers that keep up and whose processor time is not known: any share."""
_OF_THE_LOAD = (0.5, 1.0, 1.5)
"""Assumed shares of the measured processor time: it includes the script's other helpers, and its clock has a
resolution of hundredths."""


def core_contention(scenario: Scenario, before: Graph, baseline: Subject, threads: int) -> Scenario:
    """The scenario with operators on ``threads`` threads, with the sharing of cores recomputed.

    ``before`` is the graph with the operators as they were. Without loader workers, nothing changes here.
    """
    workers, cores = present_setting(baseline).workers, cores_of(baseline)
    now = threads_in(Scenario.of(baseline), baseline)
    if max(now, threads) + workers <= cores:
        return scenario
    waited_us, before_us = loader_and_compute_us(before, baseline.lane)
    _, after_us = loader_and_compute_us(scenario.graph, baseline.lane)
    told = inferred_load_us(baseline)
    measured = busy_load_us(baseline) if told is None else None
    if told is not None:
        loads = [told]
    elif measured is not None:
        loads = [share * measured for share in _OF_THE_LOAD]
    else:
        loads = [share * workers * before_us for share in _OF_THE_TIME]
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
            + (", and the workers are busy half of the time" if told is None and measured is None else ""),
        ),
    )


_AS_TIMED = "the iteration takes the time measured on that number of threads, while the loader's workers run"
_SHARE = "{:.0f} % of the computing is in operators that are split over threads"
_AS_TRIED = "operators scale as in this script's iterations on another number of threads"
_LEAST_ROUNDS = Constant.at(2.0, "one round has no scatter: it may have been disturbed")
_MOST_SPREAD = Constant.at(
    0.1, "an assumption: rounds that differ by more tell less than the model of shared cores"
)
_VALUES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class CpuThreads(UsualWhatIf):
    """Scales the operators that are large enough to be split, and shares the cores with loader workers."""

    name: str = "cpu_threads"
    stage: Stage = Stage.LOADING

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"split operators over {value or 'other'} CPU thread{'s' if value != '1' else ''}"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if the CPU computes, and splits operators or was tried on another number of threads.

        Libraries also split products that are too small to gain: a trial tells.
        """
        cores, now = cores_of(subject), threads_in(Scenario.of(subject), subject)
        if subject.on_gpu:
            return Applicability.no("the operators run on the GPU and not on CPU threads")
        if cores == 1 and now == 1:
            return Applicability.no("the machine has only one core")
        if subject.thread_use.split <= 0 and (subject.tried is None or subject.tried.other_threads is None):
            return Applicability.no("no operator is large enough to be split over threads")
        counts = {
            one for one in (*_VALUES, cores, cores - present_setting(subject).workers) if 1 <= one <= cores
        }
        offered = sorted(counts - {now})
        if not offered:
            return Applicability.no("there is no other number of threads to choose")
        free = max(1, cores - present_setting(subject).workers)
        default = free if free != now else max((one for one in offered if one < now), default=offered[0])
        return Applicability(True, values=tuple(map(str, offered)), default=str(default))

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale each operator by itself; then add the contention between threads and the script's workers.

        If iterations were tried on that number of threads with these workers, the iteration takes the tried
        time.
        """
        asked = whole_number(self.name, value)
        made = self._modelled(scenario, asked, subject)
        narrow = scenario.product_format if scenario.product_format in NARROW else ""
        seen = _seen_beside_workers(subject, asked, narrow)
        if seen is None or made is scenario:
            return made
        # The 16-bit format was tried together with the threads; the model accounts for the effect of other
        # changes.
        start = scenario if narrow else Scenario.of(subject, self.grain)
        alone = made if scenario.graph is start.graph else self._modelled(start, asked, subject)
        now_ms, alone_ms = subject.step_ms(made.graph), subject.step_ms(alone.graph)
        then = seen.scaled(subject.step_ms(start.graph) / alone_ms * now_ms)
        return scenario.changed(
            longer(made.graph, subject, then.value - now_ms),
            below_ms=then.value - then.low,
            above_ms=then.high - then.value,
            assumptions=(_AS_TIMED,),
            provenance=Provenance.TRIED,
        )

    def _modelled(self, scenario: Scenario, asked: int, subject: Subject) -> Scenario:
        now, cores = threads_in(Scenario.of(subject), subject), cores_of(subject)
        graph = scenario.graph
        larger, batch = scenario.pass_factor(subject), scenario.batch_factor(subject)
        chosen, divisions = split_tasks(
            subject,
            graph,
            larger,
            loaded=batch,
            asked=min(asked, cores),
            sorting=sparse_work(subject, graph, batch) if "sparse_embedding" in scenario.choices else None,
            fused=scenario.choices.get("fused_optimizer", FOREACH) != FOREACH,
            narrow=scenario.product_format in NARROW,
            replaced=scenario.replaced,
        )
        if not len(chosen) or asked == now:
            return scenario
        if not present_setting(subject).workers:
            loading, shares = split_in_loader(subject, graph, min(asked, cores))
            chosen, divisions = np.concatenate([chosen, loading]), (*divisions, *shares)
        graph = _with_python(subject, graph, asked)
        likely, least, most = factors(divisions, graph.durations[chosen], min(now, cores), min(asked, cores))
        tried = subject.tried is not None and asked == subject.tried.other_threads
        changed = scenario.between(
            subject,
            scale(graph, chosen, likely),
            scale(graph, chosen, least),
            scale(graph, chosen, most),
            assumptions=(
                *((_SHARE.format(100 * share),) if (share := subject.thread_use.split) > 0 else ()),
                *((_AS_TRIED,) if tried else ()),
                *(("more threads than cores gain nothing",) if asked > cores else ()),
            ),
            provenance=Provenance.TRIED if tried else Provenance.MODELLED,
            unsure=subject.tried.spreads.get((asked, ""), 0.0) if subject.tried is not None else 0.0,
        )
        if "num_workers" in scenario.choices or not present_setting(subject).workers:
            return changed
        return core_contention(changed, scenario.graph, subject, asked)


def _seen_beside_workers(subject: Subject, asked: int, number_format: str) -> Interval | None:
    """The ratio of the iteration on ``asked`` threads to that on the script's own, in one format; None if not tried.

    Both were tried alternately while loader workers ran. If workers do not keep up, these turns show nothing: in
    a turn, the script takes batches that were made in the turn before.
    """
    if not present_setting(subject).workers or not workers_keep_up(subject):
        return None
    before = Interval.exact(1.0) if not number_format else _tried_ratio(subject, None, number_format)
    after = _tried_ratio(subject, asked, number_format)
    if before is None or after is None:
        return None
    unsure = hypot(before.half_width / before.value, after.half_width / after.value)
    return Interval(1.0, 1.0 - unsure, 1.0 + unsure).scaled(after.value / before.value)


def _tried_ratio(subject: Subject, threads: int | None, number_format: str) -> Interval | None:
    """The ratio of the iteration in an execution configuration to the unchanged one; None if its rounds disagree."""
    tried, choices = subject.tried, Choices(threads=threads, number_format=number_format)
    if tried is None:
        return None
    ratios = next((one.ratios for one in subject.script.trials if one.choices == choices), ())
    spread = tried.spreads.get((threads or tried.threads, number_format), 0.0)
    if len(ratios) < _LEAST_ROUNDS.value or spread > _MOST_SPREAD.value:
        return None
    return Interval(1.0, 1.0 - spread, 1.0 + spread).scaled(median(ratios))


def _with_python(subject: Subject, graph: Graph, asked: int) -> Graph:
    """The graph with Python time as tried on ``asked`` threads: it depends on whether other cores are idle."""
    if subject.tried is None or present_setting(subject).workers:
        return graph
    factors = subject.tried.python_factors(graph, subject.tried.standing, (asked, ""))
    return graph.with_times(gaps=graph.gaps * factors)


WHATIF = CpuThreads()
