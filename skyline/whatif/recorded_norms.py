"""Recorded kernels of cuDNN's batch normalization, and their times in another format or layout."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import PHASE, TaskKind
from skyline.trace.record import PASSES, OperatorShape, Phase
from skyline.whatif.number_formats import NARROW, Factors, gpu, in_format
from skyline.whatif.predicted_kernels import PredictedKernels
from skyline.whatif.subject import Subject

_CALL = "aten::batch_norm"
_KERNELS = re.compile(r"(?<![a-z])bn_(fw|bw)")


def batch_norms(
    subject: Subject, graph: Graph, number_format: str, layout: str
) -> tuple[Indices, Factors] | None:
    """The kernels, and the ratios of their predicted times in this format and layout to those in the graph, at most 1.

    The sizes come from the call of the operator in the same module. A kernel that is already as fast keeps
    its time. None if the GPU or the sizes are not known.
    """
    spec, profile = gpu(subject), subject.profile
    if spec is None or profile is None or profile.prediction is not None:
        return None
    trace, tasks = profile.trace, graph.tasks
    calls = {index for index, shape in enumerate(trace.shapes) if shape.operator == _CALL}
    called = {one.module: trace.shapes[one.shape] for one in trace.records if one.shape in calls}
    called.pop(-1, None)
    found = select(graph, kind=TaskKind.KERNEL, name=_KERNELS, phase=PASSES)
    chosen = found[np.isin(tasks.module[found], list(called))]
    if not len(chosen):
        return None

    def changed(shape: OperatorShape) -> OperatorShape:
        return in_format(shape, number_format) if number_format in NARROW else shape

    backward = tasks.phase[chosen] == PHASE[Phase.BACKWARD]
    norms = [
        replace(changed(called[module]), operator=_CALL + "_backward" * bool(back), layout=layout)
        for module, back in zip(tasks.module[chosen].tolist(), backward.tolist(), strict=True)
    ]
    known = PredictedKernels.on(subject, graph, spec)
    # The predictor infers the number format of the step from its products.
    times_us = known.us([*map(changed, dict.fromkeys(known.shapes)), *norms])
    now_us = np.maximum(graph.durations[chosen], 1e-9)
    likely, least, most = (
        np.minimum(1.0, np.array([getattr(times_us[one], end) for one in norms]) / now_us)
        for end in ("value", "low", "high")
    )
    return chosen, Factors(likely, least, most)
