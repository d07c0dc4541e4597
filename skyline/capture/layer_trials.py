"""Trials of layers with fewer parameters: a few linear layers of the script with smaller factors as weights.

Processors are less efficient in narrow products, to different degrees. What-ifs that shrink weights use these trials.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from math import prod

from skyline.capture.assemble import ScriptRun
from skyline.capture.child_process import ChildProcess
from skyline.capture.config_trials import other_threads
from skyline.capture.held_run import HeldRun
from skyline.capture.product_trials import call_product
from skyline.capture.trial_budget import TrialBudget
from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import ModuleFact
from skyline.trace.record import Phase, RecordKind, Trace
from skyline.trace.trial import Choices, KroneckerTrial, LayerTrials, SplitTrial

_OPERATOR = "aten::linear"
_KRONECKER_LAYER, _KRONECKER_WEIGHT = "kronecker linear", "kronecker weight"
_BLOCKS = (4, 2)
"""Rows and columns of the smaller factor of a Kronecker product, as the what-if offers them."""
_FORMAT, _FLOAT_BYTES = "float32", 4
_MOST = 3
"""Number of layers of different sizes that are tried, by decreasing total time."""
_MOST_KRONECKER = 6
"""Number of layers, and of weights of LSTMs, that are tried with Kronecker products."""
_DIVISORS = (4, 16)
"""Ratios of the narrowest side of a product to the rank."""
_LEAST_RANK = 4
_LEAST_US = 300.0
"""In a shorter product, the call itself takes much of the time."""
_LONGEST_US = 10e3
"""A longer product is tried with fewer rows, since its time is proportional to the rows."""
_MOST_BYTES = 256 << 20
"""A layer whose tensors take more memory is not tried; the gradients take as much again."""
_TIMES = 5
"""Number of turns. The quickest one counts, because other programs only ever add time."""
_LEAST_COMPUTED = 0.25
"""Least share of a product's time that is not its call."""
_SECONDS = 1.0
"""No product is started later than this."""
_PASSES = 3.0
"""Ratio of the time of a forward and a backward pass to that of the forward pass."""
_SLOWER = 2.0
"""Expected ratio of the time on another number of threads: about two on a single thread."""
_WEIGHT_S = 0.1
"""Time that is left for one weight of an LSTM."""
_Sizes = tuple[tuple[int, ...], ...]
_Passes = tuple[float, float]
"""The times of a forward and a backward pass in µs."""


@dataclass(frozen=True, slots=True)
class _Layer:
    rows: int
    inner: int
    columns: int
    recorded_us: float

    @property
    def numbers(self) -> int:
        """The number of elements of its input, weight and output."""
        return self.rows * self.inner + self.inner * self.columns + self.rows * self.columns

    @property
    def ranks(self) -> list[int]:
        """Ranks to try: powers of two near fractions of the narrowest side."""
        narrowest = min(self.rows, self.inner, self.columns)
        powers = {
            1 << (narrowest // divisor).bit_length() - 1 for divisor in _DIVISORS if narrowest >= divisor
        }
        return sorted(rank for rank in powers if rank >= _LEAST_RANK)


def layers_of_run(held: HeldRun, run: ScriptRun, budget: TrialBudget) -> LayerTrials:
    """Trials of the layers of a run that waits; none if the script has ended."""
    recording, threads = run.recording, run.facts.environment.intraop_threads
    if run.ended_after is not None:
        return LayerTrials()
    return held.compute(
        lambda child: layer_trials(child, recording.trace, recording.modules, threads, budget)
    )


def layers_on_threads(held: HeldRun, run: ScriptRun, own: LayerTrials, budget: TrialBudget) -> LayerTrials:
    """The trials of a run, and the same forms on another number of threads, as long as there is time."""
    environment = run.facts.environment
    threads = other_threads(environment)
    if own == LayerTrials() or threads == environment.intraop_threads:
        return own
    return held.compute(lambda child: with_threads(child, own, threads, budget))


def layer_trials(
    child: ChildProcess,
    trace: Trace,
    modules: Sequence[ModuleFact],
    threads: int,
    budget: TrialBudget,
) -> LayerTrials:
    """Trials of the layers that take the most time, in each form.

    The child waits at an iteration boundary, and computes on the CPU with this number of ``threads``.
    """
    return LayerTrials(
        split_trials(child, trace, threads, budget), kronecker_trials(child, trace, modules, threads, budget)
    )


def with_threads(child: ChildProcess, own: LayerTrials, threads: int, budget: TrialBudget) -> LayerTrials:
    """The trials, and the same forms on another number of ``threads``, as long as there is time."""
    return LayerTrials(
        (*own.split, *_split_on(child, own.split, threads, budget)),
        (*own.kronecker, *_kronecker_on(child, own.kronecker, threads, budget)),
    )


def split_trials(
    child: ChildProcess, trace: Trace, threads: int, budget: TrialBudget
) -> tuple[SplitTrial, ...]:
    """Layers as two products of low rank, at up to two ranks each; empty if all layers are too small."""
    ends = TrialBudget(min(_SECONDS, budget.left_s))
    found: list[SplitTrial] = []
    call: _Passes | None = None
    long = (one for one in _layers(trace) if one.ranks and one.recorded_us >= _LEAST_US)
    for layer in islice(long, _MOST):
        takes_s = _TIMES * _PASSES * layer.recorded_us / 1e6
        if not ends.fits(takes_s):
            continue
        call = call or _passes_us(child, *_product(1, 1, 1), threads)
        whole = _passes_us(child, *_product(layer.rows, layer.inner, layer.columns), threads)
        for rank in layer.ranks if whole else ():
            if not ends.fits(takes_s / 2):
                break
            both = _split_us(child, call, layer.rows, layer.inner, layer.columns, rank, threads)
            if call and whole and both:
                forward_us, backward_us = (
                    (_without(each, one), split) for each, one, split in zip(call, whole, both, strict=True)
                )
                found.append(
                    SplitTrial(layer.rows, layer.inner, layer.columns, rank, forward_us, backward_us)
                )
    return tuple(found)


def kronecker_trials(
    child: ChildProcess, trace: Trace, modules: Sequence[ModuleFact], threads: int, budget: TrialBudget
) -> tuple[KroneckerTrial, ...]:
    """Layers with Kronecker products as weights, and weights of LSTMs that are made whole of their factors."""
    ends = TrialBudget(min(_SECONDS, budget.left_s))
    found: list[KroneckerTrial] = []
    for layer in _layers(trace)[:_MOST_KRONECKER]:
        rows, inner, columns = layer.rows, layer.inner, layer.columns
        takes_s = _TIMES * _PASSES * layer.recorded_us / 1e6
        plain: _Passes | None = None
        for blocks in _dividing(inner, columns):
            if not ends.fits(2 * takes_s):
                break
            plain = plain or _passes_us(
                child, _OPERATOR, ((rows, inner), (columns, inner), (columns,)), threads
            )
            made = _passes_us(child, *_kronecker(rows, inner, columns, blocks), threads)
            if plain and made:
                forward_us, backward_us = zip(plain, made, strict=True)
                found.append(KroneckerTrial(rows, inner, columns, blocks, forward_us, backward_us))
    weights = dict.fromkeys(
        size for module in modules for size in module.lstm_weights if _FLOAT_BYTES * prod(size) <= _MOST_BYTES
    )
    for rows, columns in sorted(weights, key=prod, reverse=True)[:_MOST_KRONECKER]:
        for blocks in _dividing(rows, columns):
            if not ends.fits(_WEIGHT_S):
                break
            made = _passes_us(child, *_kronecker(0, columns, rows, blocks), threads)
            if made:
                found.append(KroneckerTrial(0, columns, rows, blocks, (0.0, made[0]), (0.0, made[1])))
    return tuple(found)


def _split_on(
    child: ChildProcess, own: Sequence[SplitTrial], threads: int, budget: TrialBudget
) -> list[SplitTrial]:
    """The two products of each trial on another number of threads, as long as there is time."""
    ends = TrialBudget(min(_SECONDS, budget.left_s))
    found: list[SplitTrial] = []
    call: _Passes | None = None
    for one in own:
        if not ends.fits(_SLOWER * _TIMES * (one.forward_us[1] + one.backward_us[1]) / 1e6):
            break
        call = call or _passes_us(child, *_product(1, 1, 1), threads)
        both = _split_us(child, call, one.rows, one.inner, one.columns, one.rank, threads)
        if both:
            forward_us, backward_us = both
            found.append(
                replace(one, forward_us=(0.0, forward_us), backward_us=(0.0, backward_us), threads=threads)
            )
    return found


def _kronecker_on(
    child: ChildProcess, own: Sequence[KroneckerTrial], threads: int, budget: TrialBudget
) -> list[KroneckerTrial]:
    """The form with factors of each trial on another number of threads, as long as there is time."""
    ends = TrialBudget(min(_SECONDS, budget.left_s))
    found: list[KroneckerTrial] = []
    for one in own:
        if not ends.fits(_SLOWER * _TIMES * (one.forward_us[1] + one.backward_us[1]) / 1e6):
            break
        made = _passes_us(child, *_kronecker(one.rows, one.inner, one.columns, one.blocks), threads)
        if made:
            forward_us, backward_us = made
            found.append(
                replace(one, forward_us=(0.0, forward_us), backward_us=(0.0, backward_us), threads=threads)
            )
    return found


def _dividing(*sizes: int) -> list[int]:
    return [blocks for blocks in _BLOCKS if all(size % blocks == 0 and size > blocks for size in sizes)]


def _product(rows: int, inner: int, columns: int) -> tuple[str, _Sizes]:
    return _OPERATOR, ((rows, inner), (columns, inner))


def _kronecker(rows: int, inner: int, columns: int, blocks: int) -> tuple[str, _Sizes]:
    """The call of a layer with factors; with 0 rows, the making of its weight."""
    factors = (blocks, blocks), (columns // blocks, inner // blocks)
    return (_KRONECKER_LAYER, ((rows, inner), *factors, (columns,))) if rows else (_KRONECKER_WEIGHT, factors)


def _split_us(
    child: ChildProcess, call: _Passes | None, rows: int, inner: int, columns: int, rank: int, threads: int
) -> _Passes | None:
    """The passes of both thin products together, without their calls; None if the child cannot call them."""
    first = _passes_us(child, *_product(rows, inner, rank), threads)
    second = _passes_us(child, *_product(rows, rank, columns), threads)
    if not (call and first and second):
        return None
    forward_us, backward_us = (
        _without(each, before) + _without(each, after)
        for each, before, after in zip(call, first, second, strict=True)
    )
    return forward_us, backward_us


def _passes_us(child: ChildProcess, operator: str, inputs: _Sizes, threads: int) -> _Passes | None:
    """The quickest forward and backward pass in µs; None if the child cannot call the operator."""
    choices = Choices(threads=threads, number_format=_FORMAT)
    forward_us: list[float] = []
    backward_us: list[float] = []
    for _ in range(_TIMES):
        passes, _ = call_product(child, operator, inputs, {}, choices)
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
        known = found.get(weight)
        fits = _FLOAT_BYTES * layer.numbers <= _MOST_BYTES
        if fits and (known is None or layer.rows > known[1].rows):
            found[weight] = sum(each), layer
    return [layer for _, layer in sorted(found.values(), key=lambda one: -one[0])]
