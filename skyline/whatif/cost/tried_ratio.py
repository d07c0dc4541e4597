"""Whole iterations in another execution config, as they were timed in turns with unchanged ones."""

from __future__ import annotations

from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.interval import Interval, median
from skyline.trace.record import Phase
from skyline.trace.trial import Choices
from skyline.whatif.constant import Constant
from skyline.whatif.cost.loader_model import workers_keep_up
from skyline.whatif.loader_setting import present_setting
from skyline.whatif.subject import Subject

_LEAST_ROUNDS = Constant.at(2.0, "one round has no scatter: it may have been disturbed")
_MOST_SPREAD = Constant.at(
    0.1, "an assumption: rounds that differ by more tell less than the model of shared cores"
)
_MOST_APART = Constant.at(
    1.25, "an assumption: a sum of operators that is further from the whole iteration is of other work"
)
_PASSES = (Phase.FORWARD, Phase.BACKWARD)


def tried_ratio(subject: Subject, threads: int | None, number_format: str) -> Interval | None:
    """The iteration in an execution config over the unchanged one, by its rounds; None where they do not agree.

    Workers that do not keep up tell nothing: in a turn the script takes batches that were made in the one before.
    """
    tried, choices = subject.tried, Choices(threads=threads, number_format=number_format)
    if tried is None or (present_setting(subject).workers and not workers_keep_up(subject)):
        return None
    ratios = next((one.ratios for one in subject.script.trials if one.choices == choices), ())
    spread = tried.spreads.get((threads or tried.threads, number_format), 0.0)
    if len(ratios) < _LEAST_ROUNDS.value or spread > _MOST_SPREAD.value:
        return None
    return Interval(1.0, 1.0 - spread, 1.0 + spread).scaled(median(ratios))


def passes_as_timed(subject: Subject, graph: Graph, factor: float) -> Graph:
    """The graph whose iteration is so many times as long, by the work of its passes.

    The sum of tried operators and the tried iteration differ by what lies between operators, which is shared out.
    """
    chosen = select(graph, phase=_PASSES, lane=subject.lane)
    passes_ms = float((graph.durations + graph.gaps)[chosen].sum()) / 1e3 / max(1, len(graph.iterations))
    factor = min(_MOST_APART.value, max(1 / _MOST_APART.value, factor))
    more_ms = (factor - 1) * subject.step_ms(graph)
    if passes_ms <= 0 or passes_ms + more_ms <= 0:
        return graph
    return scale(graph, chosen, (passes_ms + more_ms) / passes_ms, gaps=True)
