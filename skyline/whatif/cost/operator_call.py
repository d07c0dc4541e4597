"""The cost of calling an operator on this machine, from the recorded iterations."""

from __future__ import annotations

import numpy as np

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
    """Time in µs of an operator of this pass that computes next to nothing, with the way to it.

    It is ``MOST_US`` where none was recorded, or all of them compute more.
    """
    called = select(graph, kind=TaskKind.CPU, phase=phase, lane=subject.lane)
    called = called[graph.durations[called] > 0]
    if not len(called):
        return MOST_US
    return min(MOST_US, float(np.quantile(graph.durations[called] + graph.gaps[called], _SMALL.value)))
