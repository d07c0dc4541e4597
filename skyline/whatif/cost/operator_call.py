"""The cost of calling an operator on this machine, from the recorded iterations."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.trace.record import Phase
from skyline.whatif.constant import EXAMPLES, XEON, Constant
from skyline.whatif.subject import Subject

_SMALL = Constant.at(0.25, "an assumption: a quarter of the operators of a pass compute next to nothing")
_MOST = Constant.at(
    10.0,
    "a piece of generated code, or a library's product, called from Python in larger networks",
    EXAMPLES,
    XEON,
)
MOST_US = _MOST.value


def call_us(subject: Subject, graph: Graph, phase: Phase) -> float:
    """The time in µs of an operator of this pass that computes next to nothing, with the gap to the next one.

    The gap is Python's time in a forward pass and the autograd engine's in a backward pass. ``MOST_US`` if no
    operator was recorded, or if all of them compute more.
    """
    called, ways_us = _operators(subject, graph, phase)
    return _small_us(graph.durations[called] + ways_us)


def dispatch_us(subject: Subject, graph: Graph, phase: Phase) -> float:
    """The time in µs that each operator spends before it computes; 0 if no small operators show it."""
    called, _ = _operators(subject, graph, phase)
    found = _small_us(graph.durations[called])
    return found if found < MOST_US else 0.0


def between_us(subject: Subject, graph: Graph, phase: Phase, chosen: Indices) -> float:
    """The usual time in µs from the end of a chosen operator of this pass to the next operator; 0 without any.

    It is Python's time in a forward pass and the autograd engine's in a backward pass. The median leaves out
    longer work of the script between two operators.
    """
    called, ways_us = _operators(subject, graph, phase)
    own_us = ways_us[np.isin(called, chosen)]
    return float(np.median(own_us)) if len(own_us) else 0.0


def _operators(subject: Subject, graph: Graph, phase: Phase) -> tuple[Indices, Times]:
    """The operators of a pass on the script's lane, and the time from the end of each to the next one."""
    own = select(graph, kind=TaskKind.CPU, phase=phase, lane=subject.lane)
    works = graph.durations[own] > 0
    called = own[works]
    last = np.cumsum(works) - 1
    behind = last >= 0
    ways_us = np.zeros(len(called))
    np.add.at(ways_us, last[behind], graph.gaps[own[behind]])
    return called, ways_us


def _small_us(times_us: Times) -> float:
    return min(MOST_US, float(np.quantile(times_us, _SMALL.value))) if len(times_us) else MOST_US
