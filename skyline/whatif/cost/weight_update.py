"""The update of layers whose weights are replaced, and the accumulation of their gradients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import log, prod
from statistics import fmean

from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.graph.task import ALL_BUT_LOADING, TaskKind
from skyline.interval import END_OF_GAIN, End, median
from skyline.memory.growth import LARGE_BYTES
from skyline.trace.record import Phase
from skyline.whatif.constant import FLOAT_BYTES, Constant
from skyline.whatif.cost.factored_layers import HOST, OneWeight, Replaced, product_kind, tasks_of
from skyline.whatif.cost.large_blocks import without_returning
from skyline.whatif.cost.operator_call import dispatch_us
from skyline.whatif.cost.optimizer_step import update_of
from skyline.whatif.cost.shrunk_blocks import holds
from skyline.whatif.cost.streaming import relieved
from skyline.whatif.subject import Subject, shapes

_SHRINKS = Constant(
    1.0,
    0.75,
    1.1,
    "an assumption: smaller tensors lie in other caches, so that traffic shrinks by more or less",
)
_PER_WEIGHT = (Phase.OPTIMIZER, Phase.COMMUNICATION)


def with_gradients_added(subject: Subject, graph: Graph, layers: Sequence[Replaced]) -> Graph:
    """The graph with the gradients of the new weights accumulated and freed.

    Accumulation is a call for each weight, and traffic in proportion to its size.
    """
    by_path = {layer.module.path: layer for layer in layers}
    chosen = tasks_of(graph, layers, phase=Phase.BACKWARD, kind=product_kind(subject))
    call_us = 0.0 if subject.on_gpu else dispatch_us(subject, graph, Phase.BACKWARD)
    durations = graph.durations.copy()
    for task, shape in zip(chosen.tolist(), shapes(subject, graph, chosen), strict=True):
        layer = by_path[graph.structure.modules[int(graph.tasks.module[task])]]
        if shape is not None and shape.operator.endswith("AccumulateGrad") and shape.inputs:
            rows, *rest = shape.inputs[0] or (0,)
            if rest and rows * rest[0] == layer.before:
                called_us = min(call_us, float(durations[task]))
                traffic_us = (durations[task] - called_us) * layer.after / layer.before
                durations[task] = (1 + layer.more_tensors) * called_us + traffic_us
    return _with_gradients_kept(subject, graph.with_times(durations=durations), layers)


def _with_gradients_kept(subject: Subject, graph: Graph, layers: Sequence[Replaced]) -> Graph:
    """The graph without the pauses in which large gradients go back to the system, where the new ones are small."""
    if subject.on_gpu:
        return graph
    saved: dict[int, float] = {}
    for layer in layers:
        parts = layer.largest, layer.after - layer.largest
        returned = sum(part for part in parts if FLOAT_BYTES.value * part > LARGE_BYTES)
        saved[layer.before] = max(0.0, 1 - returned / layer.before)

    def share(size_bytes: int) -> float:
        return next((part for numbers, part in saved.items() if holds(size_bytes, numbers)), 0.0)

    return without_returning(subject, graph, share)


def with_update(subject: Subject, graph: Graph, layers: Sequence[Replaced], end: End) -> Graph:
    """The graph with the update and the gradient exchange of the new numbers of parameters and tensors.

    On a CPU, the operators on each weight become operators on its two smaller weights, if the recording shows
    them.
    """
    facts = subject.script.optimizers
    parameters, tensors = sum(one.parameter_count for one in facts), sum(one.tensor_count for one in facts)
    less = sum(layer.less for layer in layers)
    if not parameters or not tensors:
        return graph
    # With more parameters the change is a loss, and the best case is a small loss.
    side = END_OF_GAIN[end] if less > 0 else end
    size = max(0.0, 1 - getattr(_SHRINKS, side) * less / parameters)
    count = 1 + sum(layer.more_tensors for layer in layers) / tensors
    if subject.on_gpu:
        work = select(graph, phase=_PER_WEIGHT, kind=TaskKind.KERNEL)
        host = select(graph, phase=Phase.OPTIMIZER, kind=HOST)
        return scale(scale(graph, work, size), host, count, gaps=True)
    stepping = select(graph, phase=Phase.OPTIMIZER, kind=ALL_BUT_LOADING)
    stepped = _with_each_weight(subject, graph, stepping, layers, count, end)
    if stepped is None:
        traffic = subject.step.traffic_share
        stepped = scale(graph, stepping, traffic * size + (1 - traffic) * count, gaps=True)
    update = update_of(facts[0])
    # Caches keep more of the data that the passes still read, without the removed weights.
    moved = 0.0 if update is None else min(1.0, size) * less * update.unfused_bytes
    return relieved(subject, stepped, moved, end=side)


def _with_each_weight(
    subject: Subject, graph: Graph, stepping: Indices, layers: Sequence[Replaced], count: float, end: End
) -> Graph | None:
    """The graph with each update operator on a weight replaced by operators on its two smaller weights.

    The time of an operator on a new size is interpolated between the nearest sizes in the recording. The
    interpreter's time between operators grows with the number of tensors, by ``count``. None if the operators on
    these weights are not known one by one, as in an update of all tensors together.
    """
    called = shapes(subject, graph, stepping)
    numbers = [prod(one.inputs[0]) if one is not None and one.inputs else 0 for one in called]
    times_us: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for task, shape, size in zip(stepping.tolist(), called, numbers, strict=True):
        if shape is not None and size:
            times_us[shape.operator][size].append(float(graph.durations[task]))
    by_size: defaultdict[int, list[Replaced]] = defaultdict(list)
    for layer in layers:
        if isinstance(layer, OneWeight):
            by_size[layer.before].append(layer)
    whole = sum(map(len, by_size.values())) == len(layers)
    if not whole or not any(by_size.keys() <= each.keys() for each in times_us.values()):
        return None
    typical_us = {name: {size: median(us) for size, us in each.items()} for name, each in times_us.items()}
    factors: dict[tuple[str, int], float] = {}
    for size, replaced in by_size.items():
        # Operators that work once on each tensor tell the number of tensors of this size. Those not replaced stay.
        tensors = min(len(each[size]) for each in times_us.values() if size in each) / subject.steps
        share = min(1.0, len(replaced) / tensors)
        for name, each in typical_us.items():
            if before_us := each.get(size):
                after_us = fmean(_factors_us(each, layer, end) for layer in replaced)
                factors[name, size] = 1 - share + share * after_us / before_us
    durations, gaps = graph.durations.copy(), graph.gaps.copy()
    durations[stepping] *= [
        factors.get((shape.operator, size), 1.0) if shape is not None else 1.0
        for shape, size in zip(called, numbers, strict=True)
    ]
    # The rest of Python's time belongs to the call of the step itself, whatever the number of tensors.
    behind_operators = stepping[graph.durations[stepping] > 0]
    gaps[behind_operators] *= count
    return graph.with_times(durations=durations, gaps=gaps)


def _factors_us(times_us: Mapping[int, float], layer: Replaced, end: End) -> float:
    """The time of an operator on both new weights, in µs."""
    sizes = layer.largest, layer.after - layer.largest
    return sum(_between_us(times_us, size, end) for size in sizes if size > 0)


def _between_us(times_us: Mapping[int, float], size: int, end: End) -> float:
    """The time in µs of an operator on ``size`` numbers: a power law between the nearest known sizes.

    The ends of its range are the rate of the smaller size, which lies in faster caches, and of the larger
    size.
    """
    smaller = max((one for one in times_us if one <= size), default=0)
    larger = min((one for one in times_us if one >= size), default=0)
    rates_us = [times_us[one] * size / one for one in (smaller, larger) if one and times_us[one]]
    if smaller == larger or len(rates_us) < 2:
        return rates_us[0] if rates_us else 0.0
    if end == "value":
        part = log(size / smaller) / log(larger / smaller)
        return times_us[smaller] ** (1 - part) * times_us[larger] ** part
    return min(rates_us) if end == "low" else max(rates_us)
