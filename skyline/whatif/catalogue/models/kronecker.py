"""What if the weights of linear and recurrent layers were Kronecker products of two small ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from skyline.graph.column import Times
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import PHASE, TaskKind
from skyline.interval import ENDS, End, Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.profile import Profile
from skyline.trace.record import PASSES, Phase
from skyline.trace.trial import KroneckerTrial
from skyline.whatif.base import (
    Applicability,
    Grain,
    Provenance,
    Scenario,
    Semantics,
    Subject,
    UsualWhatIf,
)
from skyline.whatif.catalogue.host.traffic import bandwidth
from skyline.whatif.catalogue.models.kronecker_factors import (
    BLOCKS,
    KroneckerLinear,
    KroneckerLstm,
    LargerFactor,
    Layer,
    Structure,
    kronecker_layers,
    lstms,
)
from skyline.whatif.constant import FLOAT_BYTES, Constant
from skyline.whatif.cost.added_layers import called_twice, with_calls_added
from skyline.whatif.cost.factored_layers import (
    offered,
    parameters,
    product_kind,
    tasks_of,
    why_not,
    with_weights,
)
from skyline.whatif.cost.factored_linear import linear_layers, products, rows_of, with_products
from skyline.whatif.cost.numpy_weights import with_numpy
from skyline.whatif.cost.small_factors import SmallFactor, added_us
from skyline.whatif.cost.thin_layers import by_record, kronecker_parts
from skyline.whatif.cost.thread_scaling import threads_of
from skyline.whatif.cost.weight_update import with_gradients_added, with_update
from skyline.whatif.number_formats import gpu
from skyline.whatif.replaced_work import ReplacedWork
from skyline.whatif.subject import shapes

_USUAL = Constant.at(
    4, "Thakker and others (2021, MLSys) compress LSTMs 10 to 25 times; 4 by 4 blocks do so 16 times"
)
_PLACE_NUMBERS = Constant.at(
    2.0, "the place of a free number takes eight bytes, as two numbers of float32 do"
)
RATE = Constant(
    5e3,
    2e3,
    2e4,
    "an assumption: bytes per µs that a processor streams, where no plain operator was recorded",
)
_REORDERING = Constant(
    0.5,
    0.2,
    1.0,
    "an assumption: the rate at which a weight is made of its factors, over that of plain operators of the recording",
)
_ARRANGED = Constant(
    4.0,
    2.0,
    6.0,
    "from the code of the module: the result is read and written twice to bring its numbers into order; on a GPU",
)
_MADE = Constant(
    4.0,
    2.0,
    8.0,
    "an assumption: passes over a whole weight to make it of its factors, or its gradient into theirs",
)
_CALLS = Constant(
    9.0,
    5.0,
    13.0,
    "from the code of the module: next to both products it takes apart, turns twice, joins and adds the bias, and each "
    "product of more than two dimensions is viewed before and behind",
)
_TRIED = Constant(
    1.0,
    0.8,
    1.3,
    "an assumption: the time that a form of a layer adds or saves in the script, over that in its trial, whose tensors "
    "are still in the caches",
)
_LEAST_LEFT = Constant.at(0.05, "an assumption: the least share of its time that a layer keeps")
CAVEAT = "training tolerates fewer free parameters; its loss is not predicted"


@dataclass(frozen=True, slots=True)
class Kronecker(UsualWhatIf):
    """Splits the products of linear layers, computes the weights of LSTMs from factors, and shrinks the update.

    Kronecker products with an added sparse matrix follow Thakker and others (2021, *Doping*, MLSys).
    """

    name: str = "kronecker"
    semantics: Semantics = Semantics.MODEL
    excludes: tuple[str, ...] = ("low_rank", "pad_to_multiple")

    def title(self, value: str) -> str:
        """The change in a few words."""
        blocks, _, free = value.partition(":")
        words = f"Kronecker products of {blocks or 'a few'} by {blocks or 'a few'} blocks as weights"
        return f"{words}, with a share of {free} free numbers added" if free else words

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if layers have weights that divide into equal parts, and gain by it."""
        profile = subject.script
        layers = (*linear_layers(profile), *lstms(profile))
        if reason := why_not(subject, layers, _why_none):
            return Applicability.no(reason)
        possible = [blocks for blocks in BLOCKS if kronecker_layers(profile, Structure(blocks))]
        if not possible:
            return Applicability.no(
                "no linear layer and no LSTM has inputs and outputs that both divide into equal parts"
            )
        usual = max((one for one in possible if one <= _USUAL.value), default=possible[0])
        graph = subject.graph_of(Grain.OPERATORS)
        chosen = kronecker_layers(profile, Structure(usual))
        if not len(tasks_of(graph, chosen, kind=product_kind(subject), phase=PASSES)):
            return Applicability.no("no work of such a layer was recorded")
        return offered(
            subject, chosen, lambda now: _changed(subject, now, chosen, 1.0, "value"), usual, possible
        )

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Change the products, or add the computation of whole weights, and shrink the work on weights."""
        structure = Structure.parse(value)
        layers = kronecker_layers(subject.script, structure)
        if not layers:
            return replace(
                scenario, reason=f"{value} makes the weight of no linear layer and no LSTM smaller"
            )
        larger = scenario.pass_factor(subject)
        cases = [_changed(subject, scenario.graph, layers, larger, end) for end in ENDS]
        replaced = {**scenario.replaced, **_replaced(subject, cases[0], layers)}
        less, whole = parameters(subject, layers)
        made = _made_whole(layers)
        tried = all(_is_tried(subject, layer) for layer in layers)
        return replace(scenario, replaced=replaced).between(
            subject,
            *cases,
            assumptions=(
                (
                    f"layers with Kronecker products: {len(layers)}; "
                    f"{less:,} of {whole:,} parameters are removed"
                ),
                *(
                    (
                        f"layers whose weights are made whole in each pass, and whose products stay: {len(made)}",
                    )
                    if made
                    else ()
                ),
                *(("each layer as it was tried on this machine",) if tried else ()),
                CAVEAT,
            ),
            memory=with_weights(subject, layers, _kept_bytes(subject, scenario.graph, layers, larger)),
            provenance=Provenance.TRIED if tried else Provenance.ASSUMED,
        )


def _why_none(profile: Profile) -> str:
    return "the model trains no linear layer with a weight of its own, and no LSTM"


def _made_whole(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    return tuple(one for one in layers if one.is_made_whole)


def _split(layers: Sequence[Layer]) -> tuple[KroneckerLinear, ...]:
    return tuple(one for one in layers if isinstance(one, KroneckerLinear) and not one.is_made_whole)


def _changed(subject: Subject, graph: Graph, layers: tuple[Layer, ...], larger: float, end: End) -> Graph:
    made, before = _made_whole(layers), graph
    trials = {one.module.path: found for one in _split(layers) if (found := _trial(subject, one))}
    split = tuple(one for one in _split(layers) if one.module.path not in trials)
    chosen = products(subject, graph, split) if split else None
    graph = with_products(
        subject, graph, split if subject.on_gpu else tuple(map(LargerFactor.of, split)), larger, end
    )
    durations = graph.durations.copy()
    plain, making = _rates(subject)
    if chosen is not None:
        by_path = {one.module.path: one for one in split}
        for task, rows in zip(chosen.tolist(), rows_of(subject, before, chosen, by_path), strict=True):
            layer = by_path[before.structure.modules[int(before.tasks.module[task])]]
            back = int(before.tasks.phase[task]) == PHASE[Phase.BACKWARD]
            durations[task] += _beside_us(subject, layer, larger * rows, plain, end, back=back)
    tried = tuple(one for one in _split(layers) if one.module.path in trials)
    _as_tried(subject, before, durations, tried, trials, larger, end)
    for layer in made:
        for task in _firsts(subject, before, layer):
            back = int(before.tasks.phase[task]) == PHASE[Phase.BACKWARD]
            durations[task] += _making_us(subject, layer, making, end, back=back)
    graph = graph.with_times(durations=durations)
    if chosen is not None:
        graph = with_calls_added(subject, graph, chosen, getattr(_CALLS, end))
    if made and subject.on_gpu:
        graph = called_twice(graph, made)
    graph = with_numpy(subject, with_gradients_added(subject, graph, layers), layers)
    return with_update(subject, graph, layers, end)


def _own_trials(subject: Subject) -> list[KroneckerTrial]:
    """The trials on the script's own number of threads."""
    return [one for one in subject.script.kronecker_trials if one.threads is None]


def _replaced(subject: Subject, graph: Graph, layers: Sequence[Layer]) -> dict[int, ReplacedWork]:
    """The work of the tried layers in the changed graph, by row of the recording."""
    profile = subject.script
    trials = {one.module.path: found for one in _split(layers) if (found := _trial(subject, one))}
    chosen = products(subject, graph, _split(layers))
    found = by_record(graph, chosen, {path: kronecker_parts(profile, one) for path, one in trials.items()})
    making = _rates(subject)[1]
    for layer in layers:
        made = _weight_trials(subject, layer) if isinstance(layer, KroneckerLstm) else None
        largest = max(made or (), key=lambda one: one.inner * one.columns, default=None)
        if largest is None:
            continue
        work = by_record(
            graph,
            np.array(_firsts(subject, graph, layer), np.int64),
            {layer.module.path: kronecker_parts(profile, largest)},
        )
        for task in _firsts(subject, graph, layer):
            row = int(graph.tasks.origin[task])
            if row in work:
                back = int(graph.tasks.phase[task]) == PHASE[Phase.BACKWARD]
                share = _making_us(subject, layer, making, "value", back=back) / float(graph.durations[task])
                found[row] = replace(work[row], share=min(1.0, share))
    return found


def _trial(subject: Subject, layer: KroneckerLinear) -> KroneckerTrial | None:
    """The trial of a layer with these factors; None without one, and on a GPU."""
    size = layer.inputs, layer.outputs, layer.structure.blocks
    known = () if subject.on_gpu else _own_trials(subject)
    return next((one for one in known if one.rows and (one.inner, one.columns, one.blocks) == size), None)


def _weight_trials(subject: Subject, layer: KroneckerLstm) -> list[KroneckerTrial] | None:
    """For each weight of an LSTM the trial of its making; None if one is missing, and on a GPU."""
    known = {
        (one.columns, one.inner): one
        for one in (() if subject.on_gpu or layer.structure.free else _own_trials(subject))
        if not one.rows and one.blocks == layer.structure.blocks
    }
    found = [known.get(size) for size in layer.weights]
    tried = [one for one in found if one is not None]
    return tried if len(tried) == len(found) else None


def _is_tried(subject: Subject, layer: Layer) -> bool:
    if isinstance(layer, KroneckerLstm):
        return _weight_trials(subject, layer) is not None
    return not layer.structure.free and _trial(subject, layer) is not None


def _as_tried(
    subject: Subject,
    graph: Graph,
    durations: Times,
    layers: tuple[KroneckerLinear, ...],
    trials: Mapping[str, KroneckerTrial],
    larger: float,
    end: End,
) -> None:
    """Change the durations of the products of these layers as their trials show.

    A trial contains the calls, which a task does not. A longer trial adds its difference to the task, and a shorter one
    shortens the task in proportion.
    """
    chosen = products(subject, graph, layers)
    by_path = {one.module.path: one for one in layers}
    for task, rows in zip(chosen.tolist(), rows_of(subject, graph, chosen, by_path), strict=True):
        one = trials[graph.structure.modules[int(graph.tasks.module[task])]]
        back = int(graph.tasks.phase[task]) == PHASE[Phase.BACKWARD]
        plain_us, made_us = one.backward_us if back else one.forward_us
        if made_us >= plain_us:
            more_us = (made_us - plain_us) * larger * rows / one.rows
            durations[task] += getattr(_TRIED, end) * more_us
        else:
            less = {"value": 1.0, "low": _TRIED.high, "high": _TRIED.low}[end] * (1 - made_us / plain_us)
            durations[task] *= max(_LEAST_LEFT.value, 1 - less)


def _making_us(subject: Subject, layer: Layer, rate: Interval, end: End, *, back: bool) -> float:
    """The time to make the whole weights of a layer, or to turn their gradients into those of the factors, in µs."""
    tried = _weight_trials(subject, layer) if isinstance(layer, KroneckerLstm) else None
    if tried is None:
        return streamed_us(getattr(_MADE, end) * layer.before, rate, end)
    took_us = sum((one.backward_us if back else one.forward_us)[1] for one in tried)
    return getattr(_TRIED, end) * took_us


def _beside_us(
    subject: Subject, layer: KroneckerLinear, rows: float, rate: Interval, end: End, *, back: bool
) -> float:
    """The time of a pass besides its products, in µs; on a CPU, besides the product with the larger factor."""
    if subject.on_gpu:
        return streamed_us(getattr(_ARRANGED, end) * rows * layer.outputs, rate, end)
    bias = bool(layer.module.options.get("bias", True))
    small = SmallFactor(rows, layer.inputs, layer.outputs, layer.structure.blocks, bias)
    return added_us(small, threads_of(subject), rate, end, back=back)


def _firsts(subject: Subject, graph: Graph, layer: Layer) -> list[int]:
    """One task of the layer in each pass of each iteration."""
    found: dict[tuple[int, int], int] = {}
    for task in tasks_of(graph, (layer,), kind=product_kind(subject), phase=PASSES).tolist():
        found.setdefault((int(graph.tasks.iteration[task]), int(graph.tasks.phase[task])), task)
    return list(found.values())


@lru_cache(maxsize=2)
def _rates(subject: Subject) -> tuple[Interval, Interval]:
    """Bytes per µs of plain operators, and of operators that compute a weight from its factors."""
    spec = gpu(subject)
    if spec is not None:
        peak = Interval.exact(spec.bandwidth_gb_s * 1e3)
        return peak, peak
    # The shapes come from the recording, so the times must, too.
    recorded = subject.graph_of(Grain.OPERATORS)
    calling = select(recorded, kind=TaskKind.CPU)
    calls = zip(shapes(subject, recorded, calling), recorded.durations[calling].tolist(), strict=True)
    measured = bandwidth([(shape, took) for shape, took in calls if shape is not None])
    if measured is None:
        return RATE.scaled(1.0), RATE.scaled(1.0)
    return Interval.exact(measured), _REORDERING.scaled(measured)


def streamed_us(numbers: float, rate: Interval, end: End) -> float:
    """The time in µs to read or write ``numbers`` numbers once; the best case has the highest rate."""
    return FLOAT_BYTES.value * numbers / {"value": rate.value, "low": rate.high, "high": rate.low}[end]


def _kept_bytes(subject: Subject, graph: Graph, layers: tuple[Layer, ...], larger: float) -> float:
    """The bytes of numbers between both factors, of whole weights, and of the places of free numbers."""
    made = _made_whole(layers)
    numbers = float(sum(one.before for one in made))
    numbers += _PLACE_NUMBERS.value * sum(one.structure.free_numbers(one.before) for one in made)
    by_path = {one.module.path: one for one in _split(layers)}
    forward = products(subject, graph, tuple(by_path.values()), Phase.FORWARD)
    for task, rows in zip(forward.tolist(), rows_of(subject, graph, forward, by_path), strict=True):
        layer = by_path[graph.structure.modules[int(graph.tasks.module[task])]]
        numbers += larger * rows * layer.outputs / max(1, subject.steps)
    return FLOAT_BYTES.value * numbers


WHATIF = Kronecker()
