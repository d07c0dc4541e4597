"""What if the weights of linear and recurrent layers were Kronecker products of two small ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from skyline.errors import UsageError
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
from skyline.whatif.constant import FLOAT_BYTES, Constant
from skyline.whatif.cost.added_layers import called_twice, with_calls_added
from skyline.whatif.cost.factored_layers import (
    OneWeight,
    Product,
    Replaced,
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
from skyline.whatif.cost.thread_scaling import threads_of
from skyline.whatif.cost.weight_update import with_gradients_added, with_update
from skyline.whatif.number_formats import gpu
from skyline.whatif.question import whole_number
from skyline.whatif.subject import shapes

_BLOCKS = tuple(2**power for power in range(1, 8))
_USUAL = Constant.at(
    4, "Thakker and others (2021, MLSys) compress LSTMs 10 to 25 times; 4 by 4 blocks do so 16 times"
)
_MOST_FREE = Constant.at(0.5, "an assumption: with more free numbers the added matrix is hardly sparse")
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
class Structure:
    """The number of rows and columns of the first factor, and the share of added free numbers (doping)."""

    blocks: int
    free: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Structure:
        """The structure described by ``4`` or ``4:0.01``. Raises UsageError for anything else."""
        first, colon, second = text.partition(":")
        blocks = whole_number("kronecker", first)
        try:
            free = float(second) if colon else 0.0
        except ValueError:
            free = -1.0
        if blocks < _BLOCKS[0] or not 0 <= free <= _MOST_FREE.value or (colon and not free):
            raise UsageError(
                f"kronecker={text}: write a whole number of at least 2, and optionally a colon and a share "
                "of free numbers",
                hint="For example kronecker=4, or kronecker=4:0.01.",
            )
        return cls(blocks, free)

    def numbers(self, rows: int, columns: int) -> int:
        """The number of parameters that replace a weight of this size."""
        return self.blocks**2 + rows * columns // self.blocks**2 + self.free_numbers(rows * columns)

    def free_numbers(self, count: int) -> int:
        """The number of free numbers in a weight of ``count`` numbers."""
        return max(1, round(self.free * count)) if self.free else 0

    def divides(self, *sizes: int) -> bool:
        """True if the sizes divide into ``blocks`` equal parts."""
        return all(size % self.blocks == 0 and size > self.blocks for size in sizes)


@dataclass(frozen=True, slots=True)
class KroneckerLinear(OneWeight):
    """A linear layer; with free numbers, each pass computes its whole weight."""

    structure: Structure

    @property
    def after(self) -> int:
        """The number of elements in the factors, and of free numbers."""
        return self.structure.numbers(self.outputs, self.inputs)

    @property
    def largest(self) -> int:
        """The number of elements in the larger factor."""
        return max(self.structure.blocks**2, self.before // self.structure.blocks**2)

    @property
    def more_tensors(self) -> int:
        """One tensor for the second factor, and one for the free numbers."""
        return 2 if self.structure.free else 1

    def products(self, rows: int) -> tuple[Product, ...]:
        """The product with the larger factor for each block, then the product with the smaller one."""
        blocks = self.structure.blocks
        inner, columns = self.inputs // blocks, self.outputs // blocks
        return Product(rows * blocks, inner, columns), Product(rows * columns, blocks, blocks)


@dataclass(frozen=True, slots=True)
class LargerFactor(KroneckerLinear):
    """The larger factor of a layer, whose time follows from its arithmetic on a CPU, too."""

    @classmethod
    def of(cls, layer: KroneckerLinear) -> LargerFactor:
        """The larger factor of a layer."""
        return cls(layer.module, layer.inputs, layer.outputs, layer.structure)

    def products(self, rows: int) -> tuple[Product, ...]:
        """The product with the larger factor."""
        return KroneckerLinear.products(self, rows)[:1]


@dataclass(frozen=True, slots=True)
class KroneckerLstm(Replaced):
    """An LSTM with weights of (rows, columns); each pass computes the whole weights."""

    weights: tuple[tuple[int, int], ...]
    structure: Structure

    @property
    def before(self) -> int:
        """The number of elements in the present weights."""
        return sum(rows * columns for rows, columns in self.weights)

    @property
    def after(self) -> int:
        """The number of elements in the factors, and of free numbers."""
        return sum(self.structure.numbers(*size) for size in self.weights)

    @property
    def largest(self) -> int:
        """The number of elements in the largest factor."""
        return max(rows * columns for rows, columns in self.weights) // self.structure.blocks**2

    @property
    def more_tensors(self) -> int:
        """For each weight, one tensor for the second factor and one for the free numbers."""
        return len(self.weights) * (2 if self.structure.free else 1)


Layer = KroneckerLinear | KroneckerLstm


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
        possible = [blocks for blocks in _BLOCKS if kronecker_layers(profile, Structure(blocks))]
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
        cases = (_changed(subject, scenario.graph, layers, larger, end) for end in ENDS)
        less, whole = parameters(subject, layers)
        made = _made_whole(layers)
        tried = all(_is_tried(subject, layer) for layer in layers)
        return scenario.between(
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


def kronecker_layers(profile: Profile, structure: Structure) -> tuple[Layer, ...]:
    """The layers whose sizes divide into the structure's blocks, and whose weights become smaller."""
    linear = (
        KroneckerLinear(one.module, one.inputs, one.outputs, structure)
        for one in linear_layers(profile)
        if structure.divides(one.inputs, one.outputs)
    )
    recurrent = (
        replace(one, structure=structure)
        for one in lstms(profile)
        if all(structure.divides(*size) for size in one.weights)
    )
    return tuple(one for one in (*linear, *recurrent) if one.less > 0)


def lstms(profile: Profile) -> tuple[KroneckerLstm, ...]:
    """The trainable LSTMs, with a placeholder structure."""
    return tuple(
        KroneckerLstm(module, weights, Structure(1))
        for module in profile.modules
        if module.trainable
        and module.calls_per_iteration > 0
        and (weights := module.lstm_weights)
        # An LSTM that already has Kronecker products has its weights elsewhere.
        and module.parameter_count >= sum(rows * columns for rows, columns in weights)
    )


def _why_none(profile: Profile) -> str:
    return "the model trains no linear layer with a weight of its own, and no LSTM"


def _made_whole(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    return tuple(one for one in layers if isinstance(one, KroneckerLstm) or one.structure.free)


def _split(layers: Sequence[Layer]) -> tuple[KroneckerLinear, ...]:
    return tuple(one for one in layers if isinstance(one, KroneckerLinear) and not one.structure.free)


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


def _trial(subject: Subject, layer: KroneckerLinear) -> KroneckerTrial | None:
    """The trial of a layer with these factors; None without one, and on a GPU."""
    size = layer.inputs, layer.outputs, layer.structure.blocks
    known = () if subject.on_gpu else subject.script.kronecker_trials
    return next((one for one in known if one.rows and (one.inner, one.columns, one.blocks) == size), None)


def _weight_trials(subject: Subject, layer: KroneckerLstm) -> list[KroneckerTrial] | None:
    """For each weight of an LSTM the trial of its making; None if one is missing, and on a GPU."""
    known = {
        (one.columns, one.inner): one
        for one in (() if subject.on_gpu or layer.structure.free else subject.script.kronecker_trials)
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
