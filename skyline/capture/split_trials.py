"""Trials of thin products: a few linear layers of the script as one product, and as two products of low rank.

Processors are less efficient in narrow products, to different degrees. What-ifs that shrink weights use these trials.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod

from skyline.capture.child_process import ChildProcess
from skyline.capture.product_trials import call_product
from skyline.capture.trial_budget import TrialBudget
from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase, RecordKind, Trace
from skyline.trace.trial import Choices, SplitTrial

_OPERATOR = "aten::linear"
_FORMAT = "float32"
_MOST = 3
"""Number of layers of different sizes that are tried, by decreasing total time."""
_DIVISORS = (4, 16)
"""Ratios of the narrowest side of a product to the rank."""
_LEAST_RANK = 4
_LEAST_US = 300.0
"""In a shorter product, the call itself takes much of the time."""
_LONGEST_US = 10e3
"""A longer product is tried with fewer rows, since its time is proportional to the rows."""
_TIMES = 5
"""Number of turns. The quickest one counts, because other programs only ever add time."""
_LEAST_COMPUTED = 0.25
"""Least share of a product's time that is not its call."""
_SECONDS = 1.0
"""No product is started later than this."""
_PASSES = 3.0
"""Ratio of the time of a forward and a backward pass to that of the forward pass."""


_Passes = tuple[float, float]
"""The times of a forward and a backward pass in µs."""


@dataclass(frozen=True, slots=True)
class _Layer:
    rows: int
    inner: int
    columns: int
    recorded_us: float

    @property
    def ranks(self) -> list[int]:
        """Ranks to try: powers of two near fractions of the narrowest side."""
        narrowest = min(self.rows, self.inner, self.columns)
        powers = {
            1 << (narrowest // divisor).bit_length() - 1 for divisor in _DIVISORS if narrowest >= divisor
        }
        return sorted(rank for rank in powers if rank >= _LEAST_RANK)


def split_trials(
    child: ChildProcess, trace: Trace, threads: int, budget: TrialBudget
) -> tuple[SplitTrial, ...]:
    """Trials of the layers with the longest forward passes, at up to two ranks each; empty if all are too small.

    The child waits at an iteration boundary, and computes on the CPU with this number of ``threads``.
    """
    ends = TrialBudget(min(_SECONDS, budget.left_s))
    found: list[SplitTrial] = []
    call: _Passes | None = None
    for layer in _layers(trace):
        takes_s = _TIMES * _PASSES * layer.recorded_us / 1e6
        if not ends.fits(takes_s):
            continue
        call = call or _passes_us(child, 1, 1, 1, threads)
        whole = _passes_us(child, layer.rows, layer.inner, layer.columns, threads)
        for rank in layer.ranks if whole else ():
            if not ends.fits(takes_s / 2):
                break
            first = _passes_us(child, layer.rows, layer.inner, rank, threads)
            second = _passes_us(child, layer.rows, rank, layer.columns, threads)
            if call and whole and first and second:
                forward_us, backward_us = (
                    (_without(each, one), _without(each, before) + _without(each, after))
                    for each, one, before, after in zip(call, whole, first, second, strict=True)
                )
                found.append(
                    SplitTrial(layer.rows, layer.inner, layer.columns, rank, forward_us, backward_us)
                )
    return tuple(found)


def _passes_us(child: ChildProcess, rows: int, inner: int, columns: int, threads: int) -> _Passes | None:
    """The quickest forward and backward pass in µs; None if the child cannot call the product."""
    choices = Choices(threads=threads, number_format=_FORMAT)
    forward_us: list[float] = []
    backward_us: list[float] = []
    for _ in range(_TIMES):
        passes, _ = call_product(child, _OPERATOR, ((rows, inner), (columns, inner)), {}, choices)
        forward_us += (1e3 * (one.step_ms - one.backward_ms) for one in passes)
        backward_us += (1e3 * one.backward_ms for one in passes)
    return (min(forward_us), min(backward_us)) if forward_us else None


def _without(call_us: float, took_us: float) -> float:
    """The time of a product without its call, and at least a part of it, should the call have been disturbed."""
    return max(_LEAST_COMPUTED * took_us, took_us - call_us)


def _layers(trace: Trace) -> list[_Layer]:
    """Layers by decreasing time, each with its largest batch: smaller ones may belong to evaluations."""
    took_us: defaultdict[int, list[float]] = defaultdict(list)
    for record in trace.records:
        is_forward = record.kind is RecordKind.OPERATOR and record.phase is Phase.FORWARD
        if is_forward and record.shape >= 0 and record.name == _OPERATOR:
            took_us[record.shape].append(record.duration_us)
    found: dict[tuple[int, ...], tuple[float, _Layer]] = {}
    for number, each in took_us.items():
        given, weight = trace.shapes[number].inputs[:2]
        if trace.shapes[number].dtypes[:2] != (_FORMAT,) * 2 or len(weight) != 2 or not given:
            continue
        rows, each_us = prod(given[:-1]), median(each)
        fewer = min(1.0, _LONGEST_US / each_us) if each_us else 1.0
        layer = _Layer(max(1, round(fewer * rows)), weight[1], weight[0], fewer * each_us)
        if layer.ranks and layer.recorded_us >= _LEAST_US:
            known = found.get(weight)
            if known is None or layer.rows > known[1].rows:
                found[weight] = sum(each), layer
    return [layer for _, layer in sorted(found.values(), key=lambda one: -one[0])][:_MOST]
