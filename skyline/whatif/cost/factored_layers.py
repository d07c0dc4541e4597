"""Layers whose weight becomes the product of two smaller weights: time of products and update, parameters, memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import ON_GPU, PHASE, TaskKind, WorkClass
from skyline.interval import END_OF_GAIN, ENDS, End, Interval, median
from skyline.lazy_dataclass import dataclass
from skyline.memory.levels import RecordedLevels
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.predicted_times import in_allowed_format
from skyline.predict.registry import predictor_for
from skyline.trace.facts import ModuleFact
from skyline.trace.profile import Profile
from skyline.trace.record import PASSES, OperatorShape, Phase
from skyline.whatif.base import Applicability, Grain
from skyline.whatif.constant import FLOAT_BYTES, Constant
from skyline.whatif.cost.large_blocks import MOST_OF_A_TASK, provided_us
from skyline.whatif.cost.narrow_rate import half_rate
from skyline.whatif.cost.optimizer_step import temporary_factor
from skyline.whatif.cost.shrunk_blocks import without_summands
from skyline.whatif.cost.thread_scaling import CALL_US
from skyline.whatif.memory import Memory, MemoryChange
from skyline.whatif.number_formats import gpu
from skyline.whatif.subject import Subject, shapes

_NEW_RATE = Constant(
    1.0,
    0.6,
    1.5,
    "an assumption: the rate of a product that is not in the recording, over that of those that are",
)
_UNSEEN_RATE = Constant(
    2e4, 5e3, 1e5, "an assumption: operations per µs and thread of a processor, where no product was recorded"
)
_WORTH_ASKING = Constant.at(
    0.02, "the share of the iteration, or of the peak memory, below which a list is shorter"
)
HOST = (TaskKind.CPU, TaskKind.LAUNCH)


@dataclass(frozen=True, slots=True)
class Replaced(ABC):
    """A layer whose weights are replaced by other weights."""

    module: ModuleFact

    @property
    @abstractmethod
    def before(self) -> int:
        """The number of elements in the present weights."""

    @property
    @abstractmethod
    def after(self) -> int:
        """The number of elements in the new weights."""

    @property
    @abstractmethod
    def largest(self) -> int:
        """The number of elements in the largest new tensor."""

    @property
    def is_made_whole(self) -> bool:
        """True if each pass computes the present weights, and their gradients, from the new ones."""
        return False

    @property
    def less(self) -> int:
        """The number of parameters saved; negative if there are more."""
        return self.before - self.after

    @property
    def more_tensors(self) -> int:
        """The number of new tensors minus the number of replaced ones."""
        return 1


@dataclass(frozen=True, slots=True)
class OneWeight(Replaced):
    """A replaced layer with one weight of ``inputs`` x ``outputs`` elements; an embedding's inputs are its rows."""

    inputs: int
    outputs: int

    @property
    def before(self) -> int:
        """The number of elements in the present weight."""
        return self.inputs * self.outputs

    @abstractmethod
    def products(self, rows: int) -> tuple[Product, ...]:
        """The products of the new forward pass."""


@dataclass(frozen=True, slots=True)
class Factored(OneWeight):
    """A layer split into two, with ``rank`` numbers between them."""

    rank: int

    @property
    def after(self) -> int:
        """The number of elements in both new weights."""
        return self.rank * (self.inputs + self.outputs)

    @property
    def largest(self) -> int:
        """The number of elements in the larger new weight."""
        return self.rank * max(self.inputs, self.outputs)

    def products(self, rows: int) -> tuple[Product, ...]:
        """The two thin products."""
        return Product(rows, self.inputs, self.rank), Product(rows, self.rank, self.outputs)


@dataclass(frozen=True, slots=True)
class Product:
    """A product of a ``rows`` x ``inner`` matrix and an ``inner`` x ``columns`` matrix."""

    rows: int
    inner: int
    columns: int

    @property
    def backward(self) -> tuple[Product, Product]:
        """The gradients of the input and of the weight."""
        return Product(self.rows, self.columns, self.inner), Product(self.inner, self.rows, self.columns)

    def work(self, half_rate: float) -> float:
        """Operations, with more counted for a narrow product, in which a processor is slower (Hockney, 1982)."""
        return 2.0 * self.rows * self.inner * self.columns * (1 + half_rate / self.narrowest)

    @property
    def narrowest(self) -> int:
        """The smallest side, in numbers."""
        return max(1, min(self.rows, self.inner, self.columns))

    def result_bytes(self, number_format: str) -> int:
        """Size of the result."""
        return _element_bytes(number_format) * self.rows * self.columns

    def shape(self, number_format: str) -> OperatorShape:
        """The call, for a predictor."""
        left, right, result = (self.rows, self.inner), (self.inner, self.columns), (self.rows, self.columns)
        element = _element_bytes(number_format)
        numbers = self.rows * self.inner + self.inner * self.columns + self.rows * self.columns
        return OperatorShape(
            "aten::mm",
            (left, right),
            (number_format,) * 2,
            (result,),
            (number_format,),
            2 * self.rows * self.inner * self.columns,
            element * numbers,
        )


@dataclass(frozen=True, slots=True)
class Split:
    """The products of one pass of a layer, with the present and with the new weights."""

    now: tuple[Product, ...]
    then: tuple[Product, ...]
    back: bool = False

    @classmethod
    def of(cls, layer: OneWeight, rows: int, *, back: bool) -> Split:
        """The products of a pass with ``rows`` rows."""
        now = (Product(rows, layer.inputs, layer.outputs),)
        then = layer.products(rows)
        return cls(_both(now), _both(then), back) if back else cls(now, then)


def _element_bytes(number_format: str) -> int:
    return 2 if number_format in ("bfloat16", "float16") else 4


def _both(products: Iterable[Product]) -> tuple[Product, ...]:
    return tuple(one for each in products for one in each.backward)


def why_not(subject: Subject, layers: Sequence[Replaced], why_none: Callable[[Profile], str]) -> str:
    """The reason why no layer can be split in two; empty if one of these can."""
    if not subject.script.modules:
        return "the layers of the model are not known; profile it again"
    if not layers:
        return why_none(subject.script)
    if subject.on_gpu and gpu(subject) is None:
        return "the figures of the GPU are not known: see skyline gpus"
    return ""


def offered(
    subject: Subject,
    layers: Sequence[Replaced],
    change: Callable[[Graph], Graph],
    usual: int,
    possible: Collection[int],
) -> Applicability:
    """A usual rank, and half and twice that rank if possible; not applicable if ``change`` saves hardly anything."""
    if not _is_worth_asking(subject, layers, change, subject.graph_of(Grain.OPERATORS)):
        return Applicability.no("it would save less than 2 % of the iteration and of the memory")
    values = tuple(str(one) for one in (usual // 2, usual, 2 * usual) if one in possible)
    return Applicability(True, values=values, default=str(usual))


def parameters(subject: Subject, layers: Sequence[Replaced]) -> tuple[int, int]:
    """The number of parameters that these layers save, and that of the whole model."""
    return sum(one.less for one in layers), sum(one.parameter_count for one in subject.script.optimizers)


def pairs(profile: Profile) -> list[tuple[ModuleFact, ModuleFact]]:
    """The pair of layers of each ``nn.Sequential`` with two layers."""
    modules = {module.path: module for module in profile.modules}
    return [
        (modules[f"{path}.0"], modules[f"{path}.1"])
        for path, module in modules.items()
        if module.class_name == "Sequential"
        and {f"{path}.0", f"{path}.1"} <= modules.keys()
        and f"{path}.2" not in modules
    ]


def tasks_of(graph: Graph, layers: Sequence[Replaced], **criteria: Any) -> Indices:
    """The tasks of these layers that meet the criteria of ``select``."""
    return tasks_within(graph, {layer.module.path for layer in layers}, **criteria)


def tasks_within(graph: Graph, paths: Collection[str], **criteria: Any) -> Indices:
    """The tasks of modules at these paths that meet the criteria of ``select``."""
    codes = [code for code, path in enumerate(graph.structure.modules) if path in paths]
    found = select(graph, **criteria)
    return found[np.isin(graph.tasks.module[found], codes)]


def product_kind(subject: Subject) -> TaskKind:
    """The kind of task that multiplies: a kernel on a GPU."""
    return TaskKind.KERNEL if subject.on_gpu else TaskKind.CPU


def flops_of(subject: Subject, graph: Graph, task: int, shape: OperatorShape | None) -> int:
    """The arithmetic of a task, in operations; 0 if it was not counted."""
    row = int(graph.tasks.origin[task])
    recorded = subject.script.trace.records[row].flops if row >= 0 else 0
    return max(recorded, shape.flops if shape is not None else 0)


def split_products(
    subject: Subject, graph: Graph, chosen: Indices, splits: Sequence[Split], end: End
) -> Graph:
    """The graph with the chosen products split; on a CPU each new product has its own call."""
    formats = _formats(subject, graph, chosen)
    known: dict[tuple[Split, str], float] = {}
    for split, form in zip(splits, formats, strict=True):
        if (split, form) not in known:
            known[split, form] = _ratio(subject, split, form, end)
    ratios = np.array([known[one] for one in zip(splits, formats, strict=True)], np.float64)
    now_us = graph.durations[chosen]
    calls_us, now_provided_us, then_provided_us = np.zeros((3, len(chosen)))
    if not subject.on_gpu:
        calls_us = np.minimum(CALL_US, 0.5 * now_us)
        for phase, us in called_us(subject, graph, end).items():
            here = graph.tasks.phase[chosen] == PHASE[phase]
            calls_us[here] = np.minimum(us, now_us[here])
        # The system provides memory for large results at each call; its cost does not shrink with the rank.
        both = [_provided_us(subject, split, form) for split, form in zip(splits, formats, strict=True)]
        wanted_us, then_us = np.array(both, np.float64).reshape(-1, 2).T
        now_provided_us = np.minimum(wanted_us, MOST_OF_A_TASK.value * (now_us - calls_us))
        then_provided_us = then_us * np.divide(
            now_provided_us, wanted_us, out=np.ones_like(then_us), where=wanted_us > 0
        )
    durations = graph.durations.copy()
    durations[chosen] = 2 * calls_us + ratios * (now_us - calls_us - now_provided_us) + then_provided_us
    return graph.with_times(durations=durations)


def _provided_us(subject: Subject, split: Split, number_format: str) -> tuple[float, float]:
    """The system's time to provide memory for a pass's results, in µs: with the present and the new weights."""
    now, then = (
        provided_us(subject.script, (one.result_bytes(number_format) for one in products))
        for products in (split.now, split.then)
    )
    return now, then


def _ratio(subject: Subject, split: Split, number_format: str, end: End) -> float:
    """The ratio of the time of the new products to the time of the present ones."""
    spec = gpu(subject)
    if spec is None:
        narrowest = min(one.narrowest for one in split.then)
        half = getattr(half_rate(subject.script, narrowest, back=split.back), end)
        return sum(one.work(half) for one in split.then) / sum(one.work(half) for one in split.now)
    before, after = (
        _sum(_on_gpu(spec, tuple(_allowed(subject, spec, one.shape(number_format)) for one in products)))
        for products in (split.now, split.then)
    )
    # The errors of both times have half of their variance in common.
    apart = (getattr(after, end) / after.value) ** 0.5
    return after.value / before.value * apart


def called_us(subject: Subject, graph: Graph, end: End) -> dict[Phase, float]:
    """The call time of a multiplying operator by pass, in µs; no entry if all of them take longer than ``CALL_US``.

    The upper limit is the time of the smallest recorded operators, minus their arithmetic at the highest rate
    assumed for any processor. The low end is half of their time.
    """
    found: dict[Phase, float] = {}
    for phase in PASSES:
        chosen = select(graph, kind=TaskKind.CPU, work=WorkClass.MATMUL, phase=phase)
        by_work: dict[int, list[float]] = {}
        for task, shape in zip(chosen.tolist(), shapes(subject, graph, chosen), strict=True):
            by_work.setdefault(flops_of(subject, graph, task, shape), []).append(float(graph.durations[task]))
        for work, times_us in by_work.items():
            half_us = 0.5 * median(times_us)
            least_us = half_us if end == "low" else max(half_us, 2 * half_us - work / _UNSEEN_RATE.high)
            if 0 < least_us < found.get(phase, CALL_US):
                found[phase] = least_us
    return found


def products_us(
    subject: Subject,
    products: Sequence[Product],
    rate: Interval,
    number_format: str,
    end: End,
    call_us: float = CALL_US,
) -> float:
    """Time in µs of products that are not in the recording; ``rate`` is the operations per µs of a CPU."""
    spec = gpu(subject)
    if spec is not None:
        asked = tuple(_allowed(subject, spec, one.shape(number_format)) for one in products)
        return getattr(_sum(_on_gpu(spec, asked)), end)
    reached = getattr(rate, END_OF_GAIN[end])
    halves = (getattr(half_rate(subject.script, one.narrowest, back=False), end) for one in products)
    return sum(call_us + one.work(half) / reached for one, half in zip(products, halves, strict=True))


def product_rate(subject: Subject, graph: Graph) -> tuple[Interval, bool]:
    """Operations per µs of the recorded products, and True if there are any."""
    chosen = select(graph, kind=TaskKind.CPU, work=WorkClass.MATMUL, phase=Phase.FORWARD)
    call_us = called_us(subject, graph, "value").get(Phase.FORWARD, CALL_US)
    work, took_us = 0.0, 0.0
    for task, shape in zip(chosen.tolist(), shapes(subject, graph, chosen), strict=True):
        flops = flops_of(subject, graph, task, shape)
        sides = [] if shape is None else [side for size in shape.inputs[:2] for side in size[-2:]]
        if flops and sides:
            narrowest = max(1, min(sides))
            work += flops * (1 + half_rate(subject.script, narrowest, back=False).value / narrowest)
            took_us += max(0.0, float(graph.durations[task]) - call_us)
    if work and took_us > 0:
        return _NEW_RATE.scaled(work / took_us), True
    return _UNSEEN_RATE.scaled(subject.script.environment.intraop_threads), False


def _formats(subject: Subject, graph: Graph, chosen: Indices) -> list[str]:
    called = shapes(subject, graph, chosen)
    return [
        next((name for name in one.dtypes if "float" in name), "float32") if one else "float32"
        for one in called
    ]


def _allowed(subject: Subject, spec: GpuSpec, shape: OperatorShape) -> OperatorShape:
    return in_allowed_format(shape, subject.script, spec)


@lru_cache(maxsize=1 << 10)
def _on_gpu(spec: GpuSpec, asked: tuple[OperatorShape, ...]) -> tuple[Interval, ...]:
    return tuple(one.time_us for one in predictor_for(spec).predict(asked, spec))


def _sum(times: Sequence[Interval]) -> Interval:
    """The sum of times whose errors are fully correlated."""
    return Interval(*(sum(getattr(one, end) for one in times) for end in ENDS))


def copies(subject: Subject, layers: Sequence[Replaced]) -> int:
    """The number of other networks of the same class that compute without gradients, such as a target network.

    A rewrite of the class changes their layers too. Their number follows from the parameters in memory that
    no optimizer has.
    """
    graph = subject.graph_of(Grain.OPERATORS)
    trained = FLOAT_BYTES.value * sum(one.parameter_count for one in subject.script.optimizers)
    if not trained or not len(tasks_of(graph, layers, phase=Phase.OTHER, kind=product_kind(subject))):
        return 0
    return max(0, round(subject.script.memory.parameter_bytes / trained) - 1)


def with_weights(subject: Subject, layers: Sequence[Replaced], kept_bytes: float) -> MemoryChange:
    """The change of memory by the new weights; ``kept_bytes`` between both are kept for the backward pass."""
    facts = subject.script.optimizers
    less = float(sum(layer.less for layer in layers))
    parameters = sum(one.parameter_count for one in facts) or max(1, sum(one.before for one in layers))
    state = sum(one.state_bytes for one in facts) / parameters
    share = less / parameters
    weight_bytes = (1 + copies(subject, layers)) * FLOAT_BYTES.value * less
    state_bytes = state * less
    largest = {layer.module.path: layer.largest for layer in layers}
    summands = {one.before: one.after / one.before for one in layers if not one.is_made_whole}
    temporary = temporary_factor(subject, largest, share)

    def change(levels: RecordedLevels) -> RecordedLevels:
        then = without_summands(subject, levels, summands)
        most = then.most_activations
        then = then.scaled(1 + kept_bytes / most) if most > 0 else then.more_activations(kept_bytes)
        return then.with_weights(weight_bytes + state_bytes, 1 - share, temporary)

    def changed(memory: Memory) -> Memory:
        parameters = max(0.0, memory.parameters - weight_bytes)
        optimizer = max(0.0, memory.optimizer - state_bytes)
        return replace(memory.changed(change), parameters=parameters, optimizer=optimizer)

    return changed


def _is_worth_asking(
    subject: Subject, layers: Sequence[Replaced], change: Callable[[Graph], Graph], graph: Graph
) -> bool:
    """True if the change saves a noticeable share of the iteration, or of the permanent memory."""
    after = change(graph)
    counted = ON_GPU[graph.tasks.kind] if subject.on_gpu else np.ones(len(graph), np.bool_)
    now_us, then_us = (float((one.durations + one.gaps)[counted].sum()) for one in (graph, after))
    if now_us - then_us >= _WORTH_ASKING.value * 1e3 * subject.steps * subject.iteration_ms.value:
        return True
    facts = subject.script.optimizers
    state = sum(one.state_bytes for one in facts) / max(1, sum(one.parameter_count for one in facts))
    saved = (FLOAT_BYTES.value + state) * sum(layer.less for layer in layers)
    return saved > 0 and saved >= _WORTH_ASKING.value * subject.peak.total
