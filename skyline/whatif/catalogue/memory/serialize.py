"""What if groups of layers went through a batch in sub-batches, whose activations stay in a cache."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import PARTS, PHASE, WORK, Part, TaskKind, WorkClass, parts_of
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import ModuleFact
from skyline.trace.profile import Profile
from skyline.trace.record import OperatorShape, Phase
from skyline.units import format_bytes, plural
from skyline.whatif.base import Applicability, Provenance, Scenario, Semantics, Subject, UsualWhatIf
from skyline.whatif.catalogue.host.traffic import bandwidth, traffic
from skyline.whatif.catalogue.memory.batch_scaling import grown, growth
from skyline.whatif.constant import CACHE_BYTES, WORTH_ASKING, Constant
from skyline.whatif.cost.embedding_rows import cleared_shares
from skyline.whatif.cost.sub_batches import Group, LayerCost, Serialization
from skyline.whatif.dropout import OTHER_DRAWS, draws
from skyline.whatif.question import number
from skyline.whatif.subject import shapes

_BYTES_PER_US = Constant.at(10e3, "an assumption where no operator shows it: a core moves 10 GB/s to memory")
_PARAMETER_BYTES = Constant.at(4.0, "a number in float32")
_MOST_PARTS = Constant.at(64.0, "an assumption: no group has more sub-batches, each of which calls it once")
_UNSURE = Constant(
    1.0,
    0.97,
    1.03,
    "as for gradient accumulation: a pass of a smaller batch, where the curve is surer than that",
)
_MOST_SAVED = Constant.at(0.5, "an assumption: no layer takes longer to move its tensors than for all else")
_NORM = re.compile(r"batch_?norm", re.IGNORECASE)
_ADVICE = "use nn.GroupNorm, whose mean and variance are of one sample"


@dataclass(frozen=True, slots=True)
class _Layers:
    """The layers of a forward pass: neighbouring operators of one module.

    ``forward`` is the layer of each task, or -1. A backward task belongs to all layers of its module:
    ``shares`` has, by the module's code, the layers and their shares of its backward work.
    """

    names: tuple[str, ...]
    forward: Indices
    shares: dict[int, tuple[tuple[int, float], ...]]

    def sums(self, graph: Graph, times_us: Times) -> Times:
        """The time of an iteration by layer, in µs."""
        found = np.bincount(self.forward[self.forward >= 0], times_us[self.forward >= 0], len(self.names))
        backward = graph.tasks.phase == PHASE[Phase.BACKWARD]
        for module, parts in self.shares.items():
            whole = float(times_us[backward & (graph.tasks.module == module)].sum())
            for layer, part in parts:
                found[layer] += part * whole
        return found / max(1, len(graph.iterations))

    def scaled(self, graph: Graph, factors: Times) -> Graph:
        """The graph with the work and the Python time of each layer multiplied by its factor."""
        by_task = np.where(self.forward >= 0, factors[self.forward], 1.0)
        backward = graph.tasks.phase == PHASE[Phase.BACKWARD]
        for module, parts in self.shares.items():
            by_task[backward & (graph.tasks.module == module)] = sum(
                factors[one] * part for one, part in parts
            )
        return graph.with_times(graph.durations * by_task, graph.gaps * by_task)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Groups of layers, and their change of the iteration time by layer, in µs: likely, at best and at worst."""

    layers: _Layers
    groups: tuple[Group, ...]
    changes_us: tuple[Times, Times, Times]
    now_us: Times
    copied_bytes: float
    best: tuple[int, float] | None
    """The size with the fastest passes, and the ratio of their time to the whole batch; None if no size fits."""
    stays: bool = False
    """True if the activations of a whole batch stay in the cache, layer by layer."""

    @property
    def saved_us(self) -> float:
        """The likely time that an iteration saves, in µs."""
        return -float(self.changes_us[0].sum())


@dataclass(frozen=True, slots=True)
class Serialize(UsualWhatIf):
    """Gives each group of layers the measured time of its sub-batches, plus copies between groups and gradient sums.

    Mini-batch serialization (Lym and others, MLSys 2019). Weights are read for each sub-batch, activations once.
    """

    name: str = "serialize"
    training_only: bool = True
    semantics: Semantics = Semantics.NUMERICS
    excludes: tuple[str, ...] = ("grad_accumulation", "fuse_jobs", "compile", "cuda_graphs")

    def title(self, value: str) -> str:
        """The change in a few words."""
        return (
            f"groups of layers in sub-batches that stay in {f'{value} MB of cache' if value else 'the cache'}"
        )

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if samples pass the layers independently, and sub-batches gain by the measured batch curve."""
        reason = _why_not(subject)
        if reason:
            return Applicability.no(reason)
        scenario = Scenario.of(subject, self.grain)
        cache_bytes = float(subject.script.environment.cache_bytes) or CACHE_BYTES.value
        plan = _planned(scenario, subject, cache_bytes)
        if isinstance(plan, str):
            return Applicability.no(plan)
        if plan.saved_us < WORTH_ASKING.value * 1e3 * subject.iteration_ms.value:
            return Applicability.no(_brings_nothing(subject, plan, cache_bytes))
        default = f"{cache_bytes / 1e6:.4g}"
        return Applicability(True, values=(default,), default=default)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the work of both passes of each layer of a group."""
        hint = f"Give the megabytes of a cache, for example {self.name}=16."
        cache_bytes = 1e6 * number(self.name, value, lambda one: 0 < one < 1e6, hint)
        plan = _planned(scenario, subject, cache_bytes)
        if isinstance(plan, str):
            return replace(scenario, reason=plan)
        if not plan.groups:
            return replace(scenario, reason=_brings_nothing(subject, plan, cache_bytes))
        cases = (
            plan.layers.scaled(scenario.graph, 1 + change / np.maximum(1e-9, plan.now_us))
            for change in plan.changes_us
        )
        curve = subject.curve
        sizes = {group.samples for group in plan.groups}
        measured = all(map(curve.measured, sizes))
        source = "as measured" if measured else "as the batch curve says"
        changed = scenario.between(
            subject,
            *cases,
            assumptions=(
                *_said(plan),
                f"layers take the same time in a sub-batch as in a batch of its size, {source}",
                "layers follow one another, and the parts of a group are copied into one tensor at its end",
                *((OTHER_DRAWS,) if draws(scenario.graph) else ()),
            ),
            provenance=Provenance.TRIED if measured else Provenance.MODELLED,
            memory=lambda memory: memory.more(
                "activations", Interval(plan.copied_bytes, 0.0, plan.copied_bytes)
            ),
        )
        beyond = any(map(curve.extrapolated, sizes))
        return replace(changed, extrapolated=changed.extrapolated or beyond)


def _why_not(subject: Subject) -> str:
    """The reason why sub-batches are impossible or their times unknown; empty if neither."""
    profile, curve = subject.script, subject.curve
    if not subject.ran_on_cpu:
        return "it is predicted only for runs on a CPU: the caches of GPUs are not modelled"
    mixing = mixes_samples(profile)
    if mixing:
        return (
            f"{mixing} takes mean and variance over the whole batch, which sub-batches do not see: {_ADVICE}"
        )
    if curve.base is None or curve.reason:
        return curve.reason
    if curve.base < 2:
        return "a batch of one sample cannot be split"
    if profile.batch.micro_batches > 1:
        return "the script takes its batches through the model in parts already"
    return ""


def mixes_samples(profile: Profile) -> str:
    """The first recorded batch normalization, by its path or its operator; empty if there is none."""
    layer = next((one for one in profile.modules if "BatchNorm" in one.class_name), None)
    if layer is not None:
        return layer.path
    forward = (one.name for one in profile.trace.records if one.phase is Phase.FORWARD)
    return next((name for name in forward if _NORM.search(name)), "")


def _planned(scenario: Scenario, subject: Subject, cache_bytes: float) -> _Plan | str:
    """The best groups for a cache of this size, or the reason why there are none.

    If the cache holds the whole batch, a smaller and faster cache may hold a part of it. Then only measured
    sizes count, and only a gain beyond their range.
    """
    graph, recorded = scenario.graph, subject.batch_size or 0
    whole = scenario.batch_size or recorded
    layers = _layers(graph, subject.lane)
    if layers is None or recorded < 2:
        return "the layers of the iterations differ, or were not recorded"
    larger = scenario.batch_factor(subject)
    taken, given, held = _tensors(subject, graph, layers, recorded)
    taken, given, held = taken * larger, given * larger, held * larger
    if not held.any():
        return "the sizes of the layers were not recorded"
    weights = _weights(subject.script.modules, layers.names)
    stays = bool(((held + weights <= cache_bytes) | (weights > cache_bytes)).all())
    now_us = layers.sums(graph, graph.durations + graph.gaps)
    curve = subject.curve
    sizes = [size for size in _sizes(whole) if (curve.measured if stays else curve.knows)(size)]
    passes = {size: _passes_us(scenario, subject, layers, size, whole) for size in sizes}
    rate = _rate(subject, graph, cache_bytes)
    # A smaller batch that ran already had its fitting data in the cache; of batches that did not run, more
    # may fit.
    smallest = subject.curve.points[0].batch_size
    fits = {size: held * size / whole + weights <= cache_bytes for size in (*sizes, smallest)}
    moved_us = (2 * taken + given) / rate

    def costs(end: str) -> Serialization:
        by_size: dict[int, Times] = {whole: now_us}
        for size in sizes:
            ratio = subject.curve.ratio(size)
            ends = {"value": 1.0, "low": ratio.low / ratio.value, "high": ratio.high / ratio.value}
            ends["low"], ends["high"] = min(ends["low"], _UNSURE.low), max(ends["high"], _UNSURE.high)
            us = ends[end] * passes[size]
            if size < smallest and end != "high":
                beyond = np.where(fits[size] & ~fits[smallest], moved_us, 0.0)
                us = us - np.minimum(beyond, _MOST_SAVED.value * us)
            by_size[size] = us
        columns = {size: us.tolist() for size, us in by_size.items()}
        return Serialization(
            tuple(
                LayerCost(*sides, {size: us[place] for size, us in columns.items()})
                for place, sides in enumerate(
                    zip(taken.tolist(), given.tolist(), held.tolist(), weights.tolist(), strict=True)
                )
            ),
            whole,
            cache_bytes,
            rate,
        )

    likely, least, most = costs("value"), costs("low"), costs("high")
    groups = likely.groups()
    if stays and sum(most.changes_us(groups)) >= 0:
        groups = ()
    possible = [size for size in sizes if fits[size].any()]
    ratios = {
        size: float(passes[size][fits[size]].sum()) / max(1e-9, float(now_us[fits[size]].sum()))
        for size in possible
    }
    best = min(ratios.items(), key=lambda item: item[1], default=None)
    return _Plan(
        layers,
        groups,
        (
            np.array(likely.changes_us(groups)),
            np.array(least.changes_us(groups)),
            np.array(most.changes_us(groups)),
        ),
        now_us,
        likely.copied_bytes(groups),
        best,
        stays,
    )


def _layers(graph: Graph, lane: str) -> _Layers | None:
    """The layers of the forward pass; None if they differ between iterations."""
    tasks = graph.tasks
    durations = graph.durations + graph.gaps
    placed = np.full(len(graph), -1, np.int64)
    modules: list[int] = []
    for iteration in graph.iterations:
        chosen = select(graph, kind=TaskKind.CPU, phase=Phase.FORWARD, lane=lane, iteration=iteration)
        chosen = chosen[tasks.module[chosen] >= 0]
        if not (graph.durations[chosen] > 0).any():
            return None
        # Python time between operators, which may belong to a container, counts for the preceding layer.
        working = graph.durations[chosen] > 0
        of = tasks.module[chosen[working]]
        starts = np.concatenate(([True], of[1:] != of[:-1]))
        found: list[int] = of[starts].tolist()
        if modules and found != modules:
            return None
        modules = found
        begins = np.zeros(len(chosen), np.int64)
        begins[np.flatnonzero(working)[starts]] = 1
        placed[chosen] = np.maximum(0, np.cumsum(begins) - 1)
    spent: list[float] = np.bincount(placed[placed >= 0], durations[placed >= 0], len(modules)).tolist()
    by_module: dict[int, list[int]] = {}
    for layer, module in enumerate(modules):
        by_module.setdefault(module, []).append(layer)
    shares = {
        module: tuple((one, spent[one] / max(1e-9, sum(spent[each] for each in members))) for one in members)
        for module, members in by_module.items()
    }
    return _Layers(tuple(graph.structure.modules[one] for one in modules), placed, shares)


def _tensors(subject: Subject, graph: Graph, layers: _Layers, samples: int) -> tuple[Times, Times, Times]:
    """The bytes by layer of a recorded batch's inputs, of its outputs, and the most that one operator holds."""
    count = len(layers.names)
    taken, held, last = np.zeros(count), np.zeros(count), 0.0
    seen: set[int] = set()
    first = np.flatnonzero((layers.forward >= 0) & (graph.tasks.iteration == graph.iterations[0]))
    for task, shape in zip(first.tolist(), shapes(subject, graph, first), strict=True):
        if shape is None:
            continue
        layer = int(layers.forward[task])
        product = int(graph.tasks.work[task]) != WORK[WorkClass.OTHER]
        read = _of_batch(shape, samples, product=product)
        if read and layer not in seen:
            seen.add(layer)
            taken[layer] = read
        dimensions, written = traffic(shape).writes
        last = float(written) if _has_samples(dimensions, samples) else 0.0
        held[layer] = max(held[layer], read + last)
    given, after = np.zeros(count), last
    for layer in range(count - 1, -1, -1):
        given[layer], after = after, taken[layer] or after
    return taken, given, np.maximum(held, taken + given)


def _of_batch(shape: OperatorShape, samples: int, *, product: bool) -> float:
    """The bytes of inputs with all samples; for a product, of its first such input, as the other may be a weight."""
    if "embedding" in shape.operator:
        # The other input is the table.
        kinds = zip(shape.inputs, shape.dtypes, strict=False)
        shape = replace(shape, inputs=tuple(one for one, kind in kinds if kind.startswith("int")), outputs=())
        shape = replace(shape, dtypes=("int64",) * len(shape.inputs))
    sizes = [size for one, size in traffic(shape).reads if _has_samples(one, samples)]
    return float(sum(sizes[:1] if product else sizes))


def _has_samples(dimensions: tuple[int, ...], samples: int) -> bool:
    """True if the first dimension counts samples or their positions, or the second one counts samples."""
    return len(dimensions) > 1 and (dimensions[0] % samples == 0 or dimensions[1] == samples)


def _weights(modules: Sequence[ModuleFact], names: Sequence[str]) -> Times:
    """The bytes of weights by layer; they count once if a module has several layers."""
    counts = {module.path: module.parameter_count for module in modules}
    return np.array([_PARAMETER_BYTES.value * counts.pop(name, 0) for name in names])


def _sizes(whole: int) -> list[int]:
    """The sizes of equal sub-batches that a batch divides into, largest first."""
    most = min(whole, int(_MOST_PARTS.value))
    return [whole // parts for parts in range(2, most + 1) if whole % parts == 0]


def _passes_us(scenario: Scenario, subject: Subject, layers: _Layers, size: int, whole: int) -> Times:
    """The time by layer of the whole batch in sub-batches of this size, in µs; calls and Python repeat for each."""
    graph, curve = scenario.graph, subject.curve
    larger, parts = scenario.batch_factor(subject), whole / size
    now, then = curve.part_factors(whole), curve.part_factors(size)
    told_apart = {part for part, ms in subject.parts_ms.items() if ms > 0}
    ratios = {part: then[part] / now[part] if now[part] > 0 else 1.0 for part in Part}
    by_part = np.array([ratios[part if part in told_apart else Part.REST] for part in PARTS])
    here, there = (
        np.ones(len(graph)) if factor == 1.0 else growth(subject, graph, factor)
        for factor in (larger, larger / parts)
    )
    tried = None if here is None or there is None else there / here
    cleared = cleared_shares(subject.script, graph)
    smaller = grown(graph, subject.lane, parts_of(graph.tasks), by_part, 1 / parts, cleared, tried)
    return parts * layers.sums(graph, smaller.durations + smaller.gaps)


def _rate(subject: Subject, graph: Graph, cache_bytes: float) -> float:
    """The bytes per µs from and to memory, from plain operators whose tensors exceed a cache of this size."""
    chosen = select(graph, kind=TaskKind.CPU, lane=subject.lane)
    known = zip(shapes(subject, graph, chosen), graph.durations[chosen].tolist(), strict=True)
    large = [
        (shape, took)
        for shape, took in known
        if shape is not None and traffic(shape).size_bytes > cache_bytes
    ]
    return bandwidth(large) or _BYTES_PER_US.value


def _said(plan: _Plan, most: int = 3) -> tuple[str, ...]:
    """The groups with the largest gain, with their sub-batches, in words."""
    changes = plan.changes_us[0]

    def saved_us(group: Group) -> float:
        return -float(changes[group.begin : group.end].sum())

    largest = sorted(plan.groups, key=saved_us, reverse=True)[:most]
    names = plan.layers.names
    said = [
        f"{names[one.begin]} to {names[one.end - 1]} in sub-batches of {one.samples}"
        if one.end - one.begin > 1
        else f"{names[one.begin]} in sub-batches of {one.samples}"
        for one in sorted(largest, key=lambda group: group.begin)
    ]
    more = len(plan.groups) - len(largest)
    return ("; ".join(said) + (f"; and {plural(more, 'further group')}" if more else ""),)


def _brings_nothing(subject: Subject, plan: _Plan, cache_bytes: float) -> str:
    size = format_bytes(cache_bytes)
    if plan.stays:
        return f"the activations of a whole batch, layer by layer, stay in {size} already"
    if plan.best is None:
        return f"no layer with its weights fits into {size} in equal sub-batches"
    samples, ratio = plan.best
    how = "as measured" if subject.curve.measured(samples) else "by the batch curve"
    taken = (
        f"in sub-batches of {samples} the layers that stay in {size} take {ratio:.2f} times as long, {how}"
    )
    if ratio >= 1:
        return f"it gains nothing: {taken}"
    return f"it gains nothing: {taken}, and copying between groups and accumulating gradients cost as much"


WHATIF = Serialize()
