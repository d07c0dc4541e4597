"""What if a large output layer had a head for frequent classes, and narrow clusters for all others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from math import prod

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.interval import ENDS, Interval
from skyline.lazy_dataclass import dataclass
from skyline.memory.growth import LARGE_BYTES
from skyline.memory.levels import RecordedLevels
from skyline.trace.facts import LabelFact, ModuleFact
from skyline.trace.profile import Profile
from skyline.trace.record import PASSES, OperatorShape, Phase, RecordKind
from skyline.whatif.base import Applicability, Provenance, Scenario, Semantics, Subject, UsualWhatIf
from skyline.whatif.constant import XEON, Constant
from skyline.whatif.cost.large_blocks import Share, no_longer_returned, without_getting, without_returning
from skyline.whatif.cost.optimizer_step import temporary_factor
from skyline.whatif.cost.shrunk_blocks import holds, without_blocks
from skyline.whatif.memory import LevelChange, Memory
from skyline.whatif.question import whole_number
from skyline.whatif.subject import shapes

ADAPTIVE = "AdaptiveLogSoftmaxWithLoss"
LEAST_CLASSES = Constant.at(10_000, "an assumption: with fewer classes the layer is a small part of a model")
_LEAST_WIDTH = Constant.at(
    64, "the second cluster has a sixteenth of the width, which has to hold a few numbers"
)
_DIVIDER = Constant.at(4, "the default of PyTorch: the width of each cluster over that of the next one")
_HEADS = (
    Constant.at(1 / 50, "an assumption: a small head, for very uneven labels"),
    Constant.at(1 / 20, "an assumption: the least work of the three where labels follow Zipf's law"),
    Constant.at(1 / 10, "an assumption: a large head"),
)
"""Offered sizes of the head, relative to the number of classes."""
_EXPONENT = Constant(
    1.0, 0.0, 1.2,
    "Zipf (1949): the frequency of a word is in proportion to one over its rank; 0 is evenly spread labels",
)  # fmt: skip
_LEAST_LABELS = Constant.at(300, "an assumption: with fewer labels their shares are off by several per cent")
_LATER = Constant.at(
    0.01, "an assumption: the share of labels by which later iterations differ from the first ones"
)
_MOVED = Constant(
    12.0, 4.0, 60.0,
    "multiply-adds in the time of a number that is read or written, by benchmarks/softmax_parts.py on one thread; the "
    "high end is an assumption for other processors and GPUs",
    machine=XEON,
)  # fmt: skip
_SAVED = Constant(
    1.0, 0.5, 1.0,
    "the part of the measured cost of getting the logits and the gradient that is saved; the low end as for other "
    "batch sizes (``BatchCurve``)",
)  # fmt: skip
_CALLS_US = Constant(
    400.0, 150.0, 1200.0, "an assumption: some fifty calls for each cluster and for both passes, in µs"
)
_LOSS = re.compile(r"log_?softmax|cross_?entropy|nll_?loss", re.IGNORECASE)
_LOSS_KERNEL = re.compile(r"softmax|nll_?loss", re.IGNORECASE)
_UPDATES = (Phase.OPTIMIZER, Phase.OTHER)
_NUMBER_BYTES = Constant.at(4, "the width of a number in float32")


@dataclass(frozen=True, slots=True)
class OutputLayer:
    """A linear layer whose outputs go into a cross entropy; ``inputs`` are the dimensions of the input of one call."""

    module: ModuleFact
    width: int
    classes: int
    inputs: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of its weight."""
        return self.classes, self.width

    @property
    def rows(self) -> int:
        """The number of rows of one call: samples, or all their positions."""
        return prod(self.inputs[:-1])


@dataclass(frozen=True, slots=True)
class SharesLeft:
    """The remaining shares of products, of numbers of the softmax, and of parameters."""

    products: float
    numbers: float
    parameters: float
    outside: float
    """The share of the labels that are not in the head."""
    saved: float
    """The saved share of the cost of allocating large blocks, if a block becomes small."""
    calls_us: float
    number_blocks: tuple[float, ...] = ()
    """The sizes of the head's and each cluster's tensor, as shares of the logits."""
    parameter_blocks: tuple[float, ...] = ()
    """The size of each new weight, as a share of the layer's weight."""


def output_layer(profile: Profile) -> OutputLayer | None:
    """The model's largest output layer before a cross entropy, with its recorded rows; None without one."""
    trace = profile.trace
    classes = {
        sizes[-1]
        for shape in trace.shapes
        if _LOSS.search(shape.operator)
        for sizes in shape.inputs[:1]
        if len(sizes) > 1
    }
    wide = [one for one in wide_layers(profile) if one.options["out_features"] in classes]
    for module in sorted(wide, key=lambda one: -one.parameter_count):
        width, count = module.options["in_features"], module.options["out_features"]
        assert isinstance(width, int)
        assert isinstance(count, int)
        for record in trace.records:
            if record.shape < 0 or record.module < 0 or trace.modules[record.module] != module.path:
                continue
            sizes = trace.shapes[record.shape].inputs[:1]
            forward = record.phase is Phase.FORWARD and record.kind is RecordKind.OPERATOR
            if forward and sizes and sizes[0][-1:] == (width,):
                return OutputLayer(module, width, count, sizes[0])
    return None


def wide_layers(profile: Profile) -> tuple[ModuleFact, ...]:
    """The trainable linear layers of PyTorch with very many outputs."""
    return tuple(
        one
        for one in profile.modules
        if one.class_name == "Linear"
        and one.library
        and one.trainable
        and isinstance(outputs := one.options.get("out_features"), int)
        and outputs >= LEAST_CLASSES.value
    )


def cutoffs(classes: int, head: int) -> tuple[int, int]:
    """The first class of each of two clusters; the second begins at the geometric mean of head and all classes."""
    return head, round((head * classes) ** 0.5)


def default_head(classes: int) -> int:
    """The size of the head if none is given."""
    return _rounded(classes * _HEADS[1].value)


@dataclass(frozen=True, slots=True)
class AdaptiveSoftmax(UsualWhatIf):
    """Scales the layer, the loss and the update to a head and two clusters.

    Grave and others, "Efficient softmax approximation for GPUs" (2017). Chen and others, "SLIDE" (2020),
    sample classes on CPUs instead of using clusters.
    """

    name: str = "adaptive_softmax"
    training_only: bool = True
    semantics: Semantics = Semantics.MODEL
    excludes: tuple[str, ...] = ("pad_to_multiple", "keep_memory")

    def title(self, value: str) -> str:
        """The change in a few words."""
        size = f"{int(value):,} classes" if value.isdecimal() else "the frequent classes"
        return f"adaptive softmax with a head of {size}"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if a large linear layer with a weight of its own goes into a cross entropy."""
        profile = subject.script
        if not profile.modules:
            return Applicability.no("the layers of the model are not known; profile it again")
        if any(one.class_name == ADAPTIVE for one in profile.modules):
            return Applicability.no("the output layer is an adaptive softmax already")
        wide = wide_layers(profile)
        if not wide:
            return Applicability.no(f"no layer has {LEAST_CLASSES.value:,.0f} outputs or more")
        if subject.unrecorded:
            return Applicability.no(subject.unrecorded)
        layer = output_layer(profile)
        if layer is None:
            return Applicability.no("no cross entropy over the outputs of a large layer was recorded")
        reason = _why_not(profile, layer)
        if reason:
            return Applicability.no(reason)
        values = tuple(str(_rounded(layer.classes * share.value)) for share in _HEADS)
        return Applicability(True, values=values, default=str(default_head(layer.classes)))

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale each part of the layer's work, and reduce the memory of its logits, weight and update."""
        layer = output_layer(subject.script)
        assert layer is not None
        head = whole_number(self.name, value or str(default_head(layer.classes)), most=layer.classes // 2)
        rows = layer.rows * scenario.pass_factor(subject)
        spread = _below_cutoffs(subject.script, layer, head)
        ends = [shares_left(layer, head, rows, below, end) for below, end in zip(spread, ENDS, strict=True)]
        calls = scenario.parts * max(1.0, layer.module.calls_per_iteration)
        cases = (_changed(subject, scenario.graph, layer, one, calls) for one in ends)
        freed = tuple(_freed(subject, layer, head, one, scenario.pass_factor(subject)) for one in ends)
        return scenario.between(
            subject,
            *cases,
            assumptions=_assumptions(subject, layer, head, ends),
            memory=lambda memory: _memory(memory, freed),
            provenance=Provenance.MODELLED if _labels(subject.script, layer) else Provenance.ASSUMED,
        )


def _rounded(number: float) -> int:
    """The number rounded to two digits."""
    size = 10 ** max(0, len(str(int(number))) - 2)
    return round(number / size) * size


def _why_not(profile: Profile, layer: OutputLayer) -> str:
    size = prod(layer.shape)
    tables = [
        one
        for one in profile.modules
        if (one.options.get("num_embeddings"), one.options.get("embedding_dim")) == layer.shape
    ]
    # A shared parameter counts for the first of its modules.
    if layer.module.parameter_count < size or any(one.parameter_count < size for one in tables):
        return "the embedding shares the weight of the output layer; a head and clusters have weights of their own"
    if layer.width < _LEAST_WIDTH.value:
        return f"the layer has {layer.width} inputs: its clusters would have almost none"
    if profile.parallel is not None:
        return "the loss would move into the replicated model, whose call does not get the targets"
    return ""


def _labels(profile: Profile, layer: OutputLayer) -> LabelFact | None:
    """The counted labels, if there are enough of them for this layer."""
    seen = profile.labels
    known = seen is not None and seen.counted >= _LEAST_LABELS.value and seen.classes[-2] < layer.classes
    return seen if known else None


def _below_cutoffs(profile: Profile, layer: OutputLayer, head: int) -> list[list[float]]:
    """The share of the labels below each cutoff: likely, for the least work, and for the most work."""
    edges = cutoffs(layer.classes, head)
    seen = _labels(profile, layer)
    if seen is None:
        exponents = (_EXPONENT.value, _EXPONENT.high, _EXPONENT.low)
        return [[_below(layer.classes, edge, exponent) for edge in edges] for exponent in exponents]
    counts = np.interp(np.log(edges), np.log(seen.classes), seen.below)
    likely = np.minimum(1.0, counts / seen.counted)
    unsure = 2 * np.sqrt(likely * (1 - likely) / seen.counted) + _LATER.value
    return [
        likely.tolist(),
        np.minimum(1.0, likely + unsure).tolist(),
        np.maximum(0.0, likely - unsure).tolist(),
    ]


@cache
def _below(classes: int, edge: int, exponent: float) -> float:
    """The share of the labels that are among the first ``edge`` classes, by Zipf's law."""
    frequencies = np.arange(1, classes + 1, dtype=np.float64) ** -exponent
    return float(frequencies[:edge].sum() / frequencies.sum())


def _clusters(layer: OutputLayer, head: int) -> list[tuple[int, int, int]]:
    """The first class, the end of the classes and the width of each cluster."""
    edges = (*cutoffs(layer.classes, head), layer.classes)
    pairs = pairwise(edges)
    return [
        (first, last, int(layer.width // _DIVIDER.value**number))
        for number, (first, last) in enumerate(pairs, 1)
    ]


def shares_left(
    layer: OutputLayer, head: int, rows: float, below: Sequence[float], end: str = "value"
) -> SharesLeft:
    """The remaining work, at one ``end`` of the constants; ``below`` are the shares of labels below the cutoffs.

    The work of a product is its multiply-adds, plus several multiply-adds for each number of its matrices.
    """
    moved, calls_us = (float(getattr(one, end)) for one in (_MOVED, _CALLS_US))

    def work(many: float, outputs: int, depth: int) -> float:
        return many * outputs * depth + moved * (many * outputs + many * depth + outputs * depth)

    clusters = _clusters(layer, head)
    outputs = head + len(clusters)
    products, elements, parameters = (
        work(rows, outputs, layer.width),
        [rows * outputs],
        [outputs * layer.width],
    )
    for (first, last, width), share in zip(clusters, (below[1] - below[0], 1 - below[1]), strict=True):
        many, size = rows * share, last - first
        products += work(many, width, layer.width) + work(many, size, width)
        elements.append(many * size)
        parameters += [width * layer.width, width * size]
    numbers, weights = rows * layer.classes, prod(layer.shape)
    return SharesLeft(
        products / work(rows, layer.classes, layer.width),
        sum(elements) / numbers,
        sum(parameters) / weights,
        1 - below[0],
        _SAVED.low if end == "high" else _SAVED.value,
        len(clusters) * calls_us,
        tuple(one / numbers for one in elements),
        tuple(one / weights for one in parameters),
    )


def _changed(subject: Subject, graph: Graph, layer: OutputLayer, left: SharesLeft, calls: float) -> Graph:
    path = layer.module.path
    if not subject.on_gpu:
        allocations = subject.script.trace.allocations
        smaller = no_longer_returned(allocations, prod(layer.shape), left.parameter_blocks)
        saved = _saved(layer, left, smaller)
        graph = without_getting(subject, graph, saved, smaller)
        graph = without_returning(subject, graph, saved, smaller)
    own = select(graph, layer=path, phase=PASSES, on_gpu=subject.on_gpu)
    taken = np.isin(own, select(graph, name="AccumulateGrad"))
    changed = scale(graph, own, np.where(taken, left.parameters, left.products))
    called = _losses(subject, graph, layer)
    if not subject.on_gpu:
        changed = scale(changed, called, left.numbers)
    else:
        kernels = select(graph, name=_LOSS_KERNEL, phase=PASSES, on_gpu=True)
        places = _places(graph, called)
        wanted = [place in places for place in _places(graph, kernels)]
        changed = scale(changed, kernels[np.array(wanted, np.bool_)], left.numbers)
    return _with_calls(subject, _with_updates(subject, changed, layer, left), called, calls * left.calls_us)


def _saved(layer: OutputLayer, left: SharesLeft, smaller: frozenset[int]) -> Share:
    """The function that gives the saved share of a block's cost.

    A block of the logits or of the weight becomes one block for the head and one or two for each cluster.
    Blocks that are still large keep their cost. Gradients with sizes in ``smaller`` stay, and cost nothing.
    """
    blocks = {layer.rows * layer.classes: left.number_blocks, prod(layer.shape): left.parameter_blocks}

    def share(size_bytes: int) -> float:
        if size_bytes in smaller:
            return left.saved
        for count, parts in blocks.items():
            if holds(size_bytes, count):
                stays = sum(part for part in parts if part * size_bytes > LARGE_BYTES)
                return left.saved * (1 - stays)
        return 0.0

    return share


def _places(graph: Graph, chosen: Indices) -> list[tuple[int, int]]:
    """The line and the layer of each task."""
    return list(zip(graph.tasks.line[chosen].tolist(), graph.tasks.module[chosen].tolist(), strict=True))


def _losses(subject: Subject, graph: Graph, layer: OutputLayer) -> Indices:
    """The tasks of the loss on the outputs of the layer, in both passes.

    The line and the layer of the operators that take the outputs identify the loss. Other operators recorded
    there belong to it: the backward pass of the likelihood takes a single number and produces as many as the
    outputs; a function call may be one task with the lines around it.
    """
    found = select(graph, name=_LOSS, phase=PASSES, on_gpu=False)
    known = shapes(subject, graph, found)
    wanted = [
        one is not None and any(sizes[-1:] == (layer.classes,) for sizes in one.inputs) for one in known
    ]
    given = found[np.array(wanted, np.bool_)]
    of_loss = set(_places(graph, given)) - {(-1, -1)}
    there = select(graph, phase=PASSES, on_gpu=False)
    beside = there[np.array([place in of_loss for place in _places(graph, there)], np.bool_)]
    return np.union1d(given, beside)


def _with_updates(subject: Subject, graph: Graph, layer: OutputLayer, left: SharesLeft) -> Graph:
    """The graph with all work on the weight and its gradient, such as the update, scaled to the new parameters."""
    found = select(graph, phase=_UPDATES, on_gpu=subject.on_gpu)
    size = prod(layer.shape)
    alike = sum(
        layer.shape
        in (
            (one.options.get("num_embeddings"), one.options.get("embedding_dim")),
            (one.options.get("out_features"), one.options.get("in_features")),
        )
        for one in subject.script.modules
    )
    weights = np.array([_weight_of(one, layer.shape) for one in shapes(subject, graph, found)]) / max(
        1, alike
    )
    if not weights.any():
        # The sizes of kernels and of fused code are not known.
        found = select(graph, phase=Phase.OPTIMIZER, on_gpu=subject.on_gpu)
        whole = sum(one.parameter_count for one in subject.script.optimizers)
        weights = np.full(len(found), min(1.0, size / whole) if whole else 0.0)
    return scale(graph, found, 1 - weights * (1 - left.parameters))


def _weight_of(shape: OperatorShape | None, wanted: tuple[int, int]) -> float:
    """The share of an operator's input numbers that are in tensors of this shape."""
    if shape is None or wanted not in shape.inputs:
        return 0.0
    return shape.inputs.count(wanted) * prod(wanted) / sum(map(prod, shape.inputs))


def _with_calls(
    subject: Subject,
    graph: Graph,
    called: Indices,
    more_us: float,
) -> Graph:
    """The graph with the calls of the clusters added where the forward pass calls the loss."""
    forward = called[np.isin(called, select(graph, phase=Phase.FORWARD))]
    now_us = float(graph.durations[forward].sum()) / subject.steps
    return scale(graph, forward, 1 + more_us / now_us) if now_us > 0 else graph


@dataclass(frozen=True, slots=True)
class _Freed:
    """The bytes of parameters and optimizer state that the change frees, and the rest of its effect on the levels."""

    parameters: float
    optimizer: float
    change: LevelChange


def _freed(subject: Subject, layer: OutputLayer, head: int, left: SharesLeft, larger: float) -> _Freed:
    """The memory that is freed in one case, in a ``larger`` batch."""
    size = prod(layer.shape) * _NUMBER_BYTES.value
    held = sum(one.parameter_count for one in subject.script.optimizers) * _NUMBER_BYTES.value
    state = sum(one.state_bytes for one in subject.script.optimizers) * (
        min(1.0, size / held) if held else 0.0
    )
    weight = size * (1 - left.parameters)
    share = min(1.0, weight / held) if held else 1 - left.parameters
    step = temporary_factor(subject, {layer.module.path: _largest_tensor(layer, head)}, share)

    def change(levels: RecordedLevels) -> RecordedLevels:
        smaller = without_blocks(subject, levels, layer.rows * layer.classes, larger * (1 - left.numbers))
        return smaller.without_gradients(weight).with_weights(0.0, 1.0, step)

    return _Freed(weight, state * (1 - left.parameters), change)


def _largest_tensor(layer: OutputLayer, head: int) -> int:
    """The number of elements in the largest new weight."""
    clusters = _clusters(layer, head)
    made = [(head + len(clusters)) * layer.width]
    for first, last, width in clusters:
        made += [width * layer.width, width * (last - first)]
    return max(made)


def _memory(memory: Memory, freed: Sequence[_Freed]) -> Memory:
    made = memory.changed(*(one.change for one in freed))
    for owner in ("parameters", "optimizer"):
        sizes: list[float] = [getattr(one, owner) for one in freed]
        made = made.less(owner, Interval(sizes[0], min(sizes), max(sizes)))
    return made


def _assumptions(
    subject: Subject, layer: OutputLayer, head: int, ends: Sequence[SharesLeft]
) -> tuple[str, ...]:
    clusters = _clusters(layer, head)
    widths = " and ".join(str(width) for *_, width in clusters)
    edges = ", ".join(f"{first:,}" for first, *_ in clusters)
    made = [
        f"cutoffs {edges}: a head of {head:,} classes, and clusters of width {widths} for the others",
        _of_labels(_labels(subject.script, layer), ends),
    ]
    if subject.on_gpu:
        made.append(
            "the host waits for the GPU at each cluster, to learn how many labels are in it: not counted"
        )
    return tuple(made)


def _of_labels(seen: LabelFact | None, ends: Sequence[SharesLeft]) -> str:
    outside, least, most = (f"{one.outside:.0%}" for one in ends)
    if seen is not None:
        return f"{outside} ({least} to {most}) of {seen.counted:,} labels of the first iterations are outside the head"
    return (
        f"labels are numbered by frequency and follow Zipf's law: {outside} of them are outside the head; the range "
        f"reaches from {least} to evenly spread labels, {most}"
    )


WHATIF = AdaptiveSoftmax()
