"""The share of starting loader workers in a scenario: in each epoch, or once where they persist.

And how an iteration gets shorter by time that only some of them take.
"""

from __future__ import annotations

from skyline.graph.graph import Graph
from skyline.graph.scaling import scale
from skyline.graph.selection import select
from skyline.interval import Interval
from skyline.whatif.cost.starting import start_ms
from skyline.whatif.loader_setting import LoaderSetting, iterations_per_epoch, present_setting
from skyline.whatif.scenario import Scenario
from skyline.whatif.subject import Subject


def with_start(scenario: Scenario, baseline: Subject, setting: LoaderSetting, load_us: float) -> Scenario:
    """With the start of workers that were not there before, spread over an epoch's iterations where those are known.

    Whoever waits for the first worker waits for the first batch, too, which nobody makes ahead.
    """
    if setting.workers == 0 or present_setting(baseline).workers:
        return scenario
    first_ms = Interval.exact(load_us / 1e3)
    cost = _sum(start_ms(baseline.script.environment, setting.workers), first_ms)
    many = iterations_per_epoch(baseline, scenario.batch_size)
    if setting.persistent:
        said = f"the workers are started once, in about {cost.value:.0f} ms"
        return scenario.changed(scenario.graph, one_off_s=cost.scaled(1e-3), assumptions=(said,))
    if many is None:
        said = f"starting the workers, about {cost.value:.0f} ms in each epoch, is not counted"
        return scenario.changed(scenario.graph, assumptions=(said,))
    each = cost.scaled(1 / many)
    return scenario.changed(
        longer(scenario.graph, baseline, each.value),
        below_ms=each.value - each.low,
        above_ms=each.high - each.value,
        occasional_ms=each.value,
        assumptions=(
            f"starting the workers, about {cost.value:.0f} ms in each epoch, is spread over its {many:.0f} iterations",
        ),
    )


def shorter_on_average(graph: Graph, baseline: Subject, saved_ms: float, beside_ms: float) -> Graph:
    """The graph shorter by the share that ``saved_ms`` is of a mean iteration.

    The typical iteration, which a graph holds, leaves out what only few take: ``beside_ms`` of the mean one.
    Shorter by milliseconds it could end up at nothing.
    """
    share = saved_ms / max(beside_ms + baseline.iteration_ms.value, saved_ms, 1e-9)
    return scale(graph, select(graph), max(0.0, 1.0 - share), gaps=True)


def longer(graph: Graph, baseline: Subject, more_ms: float) -> Graph:
    """The graph with each iteration so much longer, or shorter, all of its work in proportion."""
    now_ms = baseline.step_ms(graph)
    if now_ms <= 0:
        return graph
    return scale(graph, select(graph), max(0.0, (now_ms + more_ms) / now_ms), gaps=True)


def _sum(first: Interval, second: Interval) -> Interval:
    return Interval(first.value + second.value, first.low + second.low, first.high + second.high)
