"""Kernels that the compiler joins, on a predicted profile: the predictor gives the time of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph
from skyline.interval import Interval
from skyline.trace.record import OperatorShape
from skyline.whatif.catalogue.host.fusion import Group, Regions
from skyline.whatif.predicted_kernels import PredictedKernels
from skyline.whatif.subject import Subject

_REDUCES = re.compile(r"norm|softmax|::sum|::mean|::amax|::amin|::var|loss", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class FusedTimes:
    """Time in µs of the first task of each group, in which the whole group runs."""

    heads: Indices
    likely: Times
    least: Times
    most: Times


def fused_as_predicted(subject: Subject, graph: Graph, found: Regions) -> FusedTimes | None:
    """The joined kernels as the predictor has them; None where nothing is predicted.

    The present time of a group is scaled by the ratio of both predictions, so that changes before this one are kept.
    """
    known = PredictedKernels.of(subject, graph)
    groups = [group for group in found.groups if group.calls and group.external_bytes > 0]
    if known is None or not groups:
        return None
    joined = [_joined(group) for group in groups]
    # Asked together with the whole step, whose products tell a predictor its format.
    calls = [call for group in groups for call in group.calls]
    us = known.us([*known.shapes, *calls, *joined])
    rows: list[Interval] = []
    for group, shape in zip(groups, joined, strict=True):
        before = sum(us[call].value for call in group.calls)
        now = float(graph.durations[group.tasks].sum())
        # A group is at most as slow as its parts, which are left apart otherwise, and no faster than any of them: a
        # normalization reads its input twice in generated code, too.
        longest = max(us[call].value for call in group.calls)
        factor = min(1.0, max(longest, us[shape].value) / before) if before > 0 else 1.0
        after = us[shape]
        spread = (after.low / after.value, after.high / after.value) if after.value > 0 else (1.0, 1.0)
        rows.append(Interval(now * factor, now * factor * spread[0], min(now, now * factor * spread[1])))
    likely, least, most = (
        np.array([getattr(row, end) for row in rows], np.float64) for end in ("value", "low", "high")
    )
    return FusedTimes(np.array([group.tasks[0] for group in groups], np.int64), likely, least, most)


def _joined(group: Group) -> OperatorShape:
    """The one kernel of a group, by what it moves."""
    first, last = group.calls[0], group.calls[-1]
    reduces = any(_REDUCES.search(call.operator) for call in group.calls)
    largest = max((size for call in group.calls for size in call.inputs), key=prod, default=())
    layouts = {call.layout for call in group.calls}
    return OperatorShape(
        "inductor::reduction" if reduces else "inductor::pointwise",
        (largest,),
        first.dtypes[:1],
        last.outputs[:1],
        last.output_dtypes[:1],
        0,
        group.external_bytes,
        layouts.pop() if len(layouts) == 1 else "",
    )
