"""The time of operators on another number of threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TypeVar

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import PHASE, WORK, WORKS, TaskKind, WorkClass, is_operator, work_class
from skyline.graph.threads import is_split
from skyline.interval import ENDS, Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import OperatorShape, Phase, Record, Trace
from skyline.trace.trial import ProductTrial, TriedTimes, divided_part
from skyline.whatif.constant import EXAMPLES, XEON, Constant
from skyline.whatif.cost.streaming import held_bytes
from skyline.whatif.loader_setting import present_setting
from skyline.whatif.number_formats import BFLOAT16
from skyline.whatif.replaced_work import ReplacedWork
from skyline.whatif.subject import Subject, shapes

_PASSES_BACK = 2.0
"""Ratio of the arithmetic of a backward pass to the forward pass: it computes gradients of the input and the weight."""
_UNLIKE = 4.0
"""If the arithmetic of backward work differs by more than this factor from every tried product, its sizes
differ too."""

Tried = tuple[ProductTrial, TriedTimes]


def tried_products(subject: Subject, graph: Graph, chosen: Indices) -> list[Tried | None]:
    """The tried product of each chosen task and the times of its pass; None if no such product was tried.

    A forward task is matched by its operator and sizes. A backward task shows the size of its incoming
    gradient, so it is matched to the product with a result of that size and the nearest arithmetic.
    """
    trials = () if subject.profile is None else subject.profile.product_trials
    if not trials:
        return [None] * len(chosen)
    forward = {(trial.operator, trial.inputs): (trial, trial.forward) for trial in trials}
    # The tasks share few shapes, and each is looked up once.
    known: dict[tuple[int, bool], Tried | None] = {}
    back: list[bool] = (graph.tasks.phase[chosen] == PHASE[Phase.BACKWARD]).tolist()
    found: list[Tried | None] = []
    for shape, is_back in zip(shapes(subject, graph, chosen), back, strict=True):
        if shape is None or not shape.inputs:
            found.append(None)
            continue
        place = id(shape), is_back
        if place not in known:
            alike = _backward(trials, shape) if is_back else forward.get((shape.operator, shape.inputs))
            known[place] = alike
        found.append(known[place])
    return found


def _backward(trials: Sequence[ProductTrial], shape: OperatorShape) -> Tried | None:
    kind, elements = work_class(shape.operator), prod(shape.inputs[0])
    alike = [trial for trial in trials if trial.backward.wide_us and trial.elements == elements]
    alike = [trial for trial in alike if work_class(trial.operator) is kind]
    if not alike:
        return None
    nearest = min(alike, key=lambda trial: _apart(trial, shape))
    return (nearest, nearest.backward) if _apart(nearest, shape) <= _UNLIKE else None


def _apart(trial: ProductTrial, shape: OperatorShape) -> float:
    """The ratio of the arithmetic of both, at least 1; 1 if it was not counted."""
    if not trial.flops or not shape.flops:
        return 1.0
    ratio = _PASSES_BACK * trial.flops / shape.flops
    return max(ratio, 1 / ratio)


_Share = TypeVar("_Share", float, Times)

# The constants of the model. A part is the share of an operator's time, excluding its call, that the threads
# divide.
_BENCHMARK = "benchmarks/worker_contention.py"
PLAIN_PART = Constant(
    0.88, 0.55, 0.98,
    f"{_BENCHMARK}: repeated by itself on two threads a large operator takes 1/1.9 to 1/1.6 of its time on one, and so "
    "do steps of networks with large batches; with small batches calls and waking count, 1/1.7 to 1/1.1",
    machine=XEON,
)  # fmt: skip
_BACKWARD_PART = Constant(
    0.89, 0.5, 0.98,
    f"{_BENCHMARK}: the backward pass of an operator, which does at least twice the work in one call",
    machine=XEON,
)  # fmt: skip
_ROWS_PART = Constant(
    0.6, 0.3, 0.85,
    "the gradient of an embedding: threads clear the table and add up its rows, one thread sorts the indices",
    EXAMPLES, XEON,
)  # fmt: skip
_SORTING_PART = Constant(
    0.4, 0.0, 0.7,
    "a step that updates touched rows alone, with 8,700 and 35,000 rows: 11.7 ms on two threads, 15.3 on one",
    EXAMPLES, XEON,
)  # fmt: skip
_ATTENTION_PART = Constant(
    0.4, 0.0, 0.9, "an assumption for fused attention of unknown size: about what known sizes reach"
)
_ATTENTION_MOST = Constant.at(
    0.9, "fused attention of heads of ten thousand numbers and more: 1/1.8 on two threads", machine=XEON
)
_ATTENTION_HALF = Constant.at(
    2800.0,
    "numbers of a head (positions by width) with half of that: 1/1.05 for a thousand, 1/1.3 for two thousand",
    machine=XEON,
)
_TRIED_LESS = Constant.at(
    0.25, "a script's tensors are in other caches than those of an operator tried by itself", EXAMPLES, XEON
)
_TRIED_MORE = Constant.at(0.1, "the same on the other side", EXAMPLES, XEON)
_IN_PLACE = Constant.at(
    0.1,
    "an assumption: what was tried within the script is nearer than what was tried by itself",
    EXAMPLES,
    XEON,
)
_TRAFFIC_PART = Constant(
    0.5, 0.25, 0.9,
    f"{_BENCHMARK}: operators on tensors larger than the caches share the way to memory, 1/1.75 to 1/1.3",
    machine=XEON,
)  # fmt: skip
_IN_ONE_PASS_PART = Constant(
    0.7, 0.25, 0.97,
    "a fused step over tensors larger than the caches: 1/1.93 on two threads, until the memory is busy",
    machine=XEON,
)  # fmt: skip
_MOST_LONGER = Constant.at(
    4.0, "an assumption: an operator that takes even longer on other threads was held up"
)
_CACHES_BYTES = Constant.at(32e6, "an assumption: the size of a last-level cache")
_COMPUTES_FROM = Constant.at(
    8.0, "an assumption: operations per byte from which arithmetic takes longer than memory"
)
_CALL = Constant.at(
    12.0,
    "µs that an operator takes before it divides its work: dispatch, memory of the result",
    EXAMPLES,
    XEON,
)
CALL_US = _CALL.value
_UNDIVIDED_GROWS = Constant.at(
    -0.12,
    "power of the batch with which the undivided share shrinks: three scripts with four times the batch took up to 5 % "
    "longer on one thread than the same share says",
    EXAMPLES, XEON,
)  # fmt: skip
_TRIED_GROWS = Constant.at(
    -0.25, "as above, by trials in scripts: operators kept 0.35 to 0.9 of that share with four times the batch",
    EXAMPLES, XEON,
)  # fmt: skip
_TRIED_SHRINKS = Constant.at(
    -0.55, "the same for smaller batches: 2.1 times the share with a quarter of the batch", EXAMPLES, XEON
)
_JOINING = Constant.at(5.0, "µs to wake threads once and wait for the last of them: 4 to 8 µs", machine=XEON)
_LOOPS = {(WorkClass.CONVOLUTION, False): 4, (WorkClass.CONVOLUTION, True): 10}
"""Number of times that threads are woken and joined in an operator, if not once. A convolution converts its
input and weights to the layout of its kernel, computes, and converts the result back. Backward it does so for
the gradients of the input and of the weights; each thread computes a part of the latter, and these are added
up (oneDNN)."""


@dataclass(frozen=True, slots=True)
class Division:
    """The division of an operator among threads: the part of its time, and the number of loops.

    If ``tried`` is true, the part is a share of all its time, including its call and the joining of threads.
    """

    part: Interval
    loops: int = 1
    tried: bool = False


def split_tasks(
    baseline: Subject,
    graph: Graph,
    larger: float = 1.0,
    *,
    loaded: float | None = None,
    asked: int = 1,
    sorting: Indices | None = None,
    fused: bool = False,
    narrow: bool = False,
    replaced: Mapping[int, ReplacedWork] | None = None,
) -> tuple[Indices, tuple[Division, ...]]:
    """The tasks on the script's thread whose time changes on ``asked`` threads, and their division.

    In passes ``larger`` times as large, more tasks are split: all work except the optimizer's grows with
    them. Loading grows with the batch (``loaded``), which may pass in parts. ``sorting`` are tasks that have
    become an update of touched rows only. ``fused`` means that the optimizer's step is one pass over all
    tensors, and that no tensor is still in a cache at the next step. ``narrow`` means that products are in 16
    bits. ``replaced`` is the work of changed layers, by row of the recording.
    """
    now, new = threads_of(baseline), replaced or {}
    trace = baseline.script.trace
    in_one_pass = fused and held_bytes(baseline) > _CACHES_BYTES.value
    apart = set[int]() if sorting is None else set[int](sorting.tolist())
    chosen = select(graph, kind=TaskKind.CPU, lane=baseline.lane)
    kept: list[int] = []
    divisions: list[Division] = []
    by_phase = {Phase.OPTIMIZER: 1.0, Phase.DATA: larger if loaded is None else loaded}
    indices: list[int] = chosen.tolist()
    rows: list[int] = graph.tasks.origin[chosen].tolist()
    in_place = tried_divisions(baseline, graph, chosen, asked, narrow=narrow, larger=larger)
    beyond = larger if baseline.tried is None else baseline.tried.beyond(larger)
    products = tried_products(baseline, graph, chosen)
    for task, row, division, tried in zip(indices, rows, in_place, products, strict=True):
        if row < 0:
            continue
        if task in apart:
            kept.append(task)
            divisions.append(Division(_SORTING_PART))
            continue
        record = trace.records[row]
        growth = by_phase.get(record.phase, larger)
        part = None if tried is None else tried[0].divided_part(tried[1], narrow=narrow)
        if row in new:
            own = division or Division(Interval.exact(0.0), tried=True)
            kept.append(task)
            divisions.append(_with_new_work(own, new[row], now))
            continue
        split = is_split(record, trace, growth)
        # The tried time does not apply if these changes replace the step or the gradient.
        elsewhere = (fused and record.phase is Phase.OPTIMIZER) or (apart and "mbedding" in record.name)
        if division is not None and not elsewhere and split == is_split(record, trace):
            kept.append(task)
            further = 1.0 if record.phase is Phase.OPTIMIZER else beyond
            divisions.append(replace(division, part=_tried_of(division.part, further)))
        elif part is not None:
            kept.append(task)
            divisions.append(Division(_of_larger(_as_tried(part), growth), tried=True))
        elif split:
            kept.append(task)
            work: WorkClass = WORKS[int(graph.tasks.work[task])]
            in_pass = in_one_pass and record.phase is Phase.OPTIMIZER
            usual = (
                _IN_ONE_PASS_PART if in_pass else _part(record, trace, attention=work is WorkClass.ATTENTION)
            )
            usual = _of_larger(usual, growth) if usual in (PLAIN_PART, _BACKWARD_PART) else usual
            divisions.append(Division(usual, _LOOPS.get((work, record.phase is Phase.BACKWARD), 1)))
    return np.array(kept, np.int64), tuple(divisions)


def _with_new_work(usual: Division, new: ReplacedWork, threads: int) -> Division:
    """The division of a task with new work: the parts by their time on one thread."""
    tried = _as_tried(new.part)
    if new.share >= 1.0:
        return Division(tried, loops=0, tried=new.with_call)

    def mixed(part: float, rest: float) -> float:
        ours, others = new.share / gained(part, threads), (1 - new.share) / gained(rest, threads)
        return (ours * part + others * rest) / (ours + others)

    ends = (mixed(getattr(tried, end), getattr(usual.part, end)) for end in ENDS)
    return replace(usual, part=Interval(*ends))


def split_in_loader(baseline: Subject, graph: Graph, asked: int) -> tuple[Indices, tuple[Division, ...]]:
    """The loader's operators on the script's thread that threads affect, and their division, as tried.

    Without trials, these are the convolutions of single images: too small to gain by threads, which are woken
    nevertheless.
    """
    chosen = select(graph, kind=TaskKind.DATA, lane=baseline.lane)
    chosen = chosen[graph.tasks.named(is_operator)[chosen]]
    found = tried_divisions(baseline, graph, chosen, asked, narrow=False)
    small = graph.tasks.work[chosen] == WORK[WorkClass.CONVOLUTION]
    woken = Division(Interval.exact(0.0), _LOOPS[WorkClass.CONVOLUTION, False])
    divisions = [one or (woken if is_small else None) for one, is_small in zip(found, small, strict=True)]
    kept = np.array([one is not None for one in divisions], np.bool_)
    return chosen[kept], tuple(one for one in divisions if one is not None)


def tried_divisions(
    baseline: Subject, graph: Graph, chosen: Indices, asked: int, *, narrow: bool, larger: float = 1.0
) -> list[Division | None]:
    """The division of each chosen task, from iterations on another number of threads; None if unknown.

    The batch is ``larger`` times as large, or the nearest batch that was tried. Unknown for all tasks if
    loader workers used cores as well: the cores that they leave to the threads are computed elsewhere.
    """
    tried = None if present_setting(baseline).workers else baseline.tried
    other = None if tried is None else tried.other_threads
    if tried is None or other is None:
        return [None] * len(chosen)
    number_format = BFLOAT16 if narrow else ""
    factors = tried.factors(graph, chosen, (tried.threads, number_format), (other, number_format), larger)
    found: list[Division | None] = []
    for factor in factors.tolist():
        if not factor > 0:
            found.append(None)
            continue
        part = divided_part(
            1 / min(_MOST_LONGER.value, max(1 / _MOST_LONGER.value, factor)), tried.threads, other
        )
        # A gain beyond the number of threads is only assumed for the number that was tried.
        part = part if asked == other else min(1.0, max(0.0, part))
        found.append(Division(Interval(part, part - _IN_PLACE.value, part + _IN_PLACE.value), tried=True))
    return found


def attention_part(numbers: float) -> float:
    """The part of fused attention that threads divide, if a head has ``numbers`` numbers (positions times width)."""
    return _ATTENTION_MOST.value * numbers**2 / (numbers**2 + _ATTENTION_HALF.value**2)


def gained(part: _Share, threads: int) -> _Share:
    """The ratio of the time on ``threads`` threads to that on one, if ``part`` of the work is split (Amdahl, 1967)."""
    return 1 - part + part / max(1, threads)


def threads_of(subject: Subject) -> int:
    """The number of threads that operators are split over; 1 if unknown."""
    profile = subject.profile
    return max(1, profile.environment.intraop_threads) if profile is not None else 1


def factors(
    divisions: tuple[Division, ...], times_us: Times, before: int, after: int
) -> tuple[Times, Times, Times]:
    """The ratio of each task's time on ``after`` threads to that on ``before``: likely, least, most (Amdahl, 1967)."""
    columns = [np.array([getattr(one.part, name) for one in divisions]) for name in ENDS]
    beside = np.array([0.0 if one.tried else 1.0 for one in divisions])
    joining_us = _JOINING.value * beside * np.array([one.loops for one in divisions], np.float64)
    calling_us = CALL_US * beside
    likely, first, second = (
        _factor(part, times_us, calling_us, joining_us, before, after) for part in columns
    )
    return likely, np.minimum(first, second), np.maximum(first, second)


def _factor(
    part: Times, times_us: Times, calling_us: Times, joining_us: Times, before: int, after: int
) -> Times:
    called_us = np.minimum(calling_us, 0.5 * times_us)
    joined_us = np.minimum(joining_us * (before > 1), 0.25 * times_us)
    alone_us = (times_us - called_us - joined_us) / gained(part, before)
    then_us = called_us + alone_us * gained(part, after) + joining_us * (after > 1)
    return then_us / np.maximum(times_us, 1e-3)


def _as_tried(part: float) -> Interval:
    return Interval(part, max(0.0, part - _TRIED_LESS.value), min(1.0, part + _TRIED_MORE.value))


def _part(record: Record, trace: Trace, *, attention: bool) -> Interval:
    shape = trace.shapes[record.shape] if record.shape >= 0 else None
    flops = max(record.flops, shape.flops if shape is not None else 0)
    moved = shape.bytes_moved if shape is not None else 0
    if attention or "attention" in record.name.lower():
        return _attention(shape)
    if moved > _CACHES_BYTES.value and flops < _COMPUTES_FROM.value * moved:
        return _TRAFFIC_PART
    if "backward" in record.name.lower():
        return _ROWS_PART if "embedding" in record.name.lower() else _BACKWARD_PART
    return PLAIN_PART


def _tried_of(part: Interval, growth: float) -> Interval:
    """The divided part that was tried, for a batch ``growth`` times as large.

    Work that gains more than the number of threads, because of their caches, does not do so with batches that
    no cache holds.
    """
    tried = min(1.0, part.value) if growth > 1.0 else part.value
    power = _TRIED_GROWS.value if growth > 1.0 else _TRIED_SHRINKS.value
    value = 1 - (1 - tried) * growth**power if tried < 1.0 else tried
    return Interval(value, value - (part.value - part.low), value + (part.high - part.value))


def _of_larger(part: Interval, growth: float) -> Interval:
    """The part in an operator on ``growth`` times as much data: the undivided work grows less than the rest."""
    if growth <= 1.0:
        return part
    value = 1 - (1 - part.value) * growth**_UNDIVIDED_GROWS.value
    return Interval(value, part.low, max(value, part.high))


def _attention(shape: OperatorShape | None) -> Interval:
    sizes = next((one for one in shape.inputs if len(one) > 2), None) if shape is not None else None
    if sizes is None:
        return _ATTENTION_PART
    part = attention_part(sizes[-2] * sizes[-1])
    return Interval(part, 0.5 * part, min(0.97, part + 0.3))
