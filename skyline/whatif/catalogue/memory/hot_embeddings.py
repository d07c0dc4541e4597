"""What if the GPU held only the most frequent rows of the embeddings, and the host the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.dependency import Cause, Dependency
from skyline.graph.graph import Graph, scale
from skyline.graph.insertion import Insertion, insert
from skyline.graph.selection import select
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.profile import Profile
from skyline.trace.record import Phase
from skyline.trace.tensor_values import TensorValues, hot_at
from skyline.units import format_bytes, format_share
from skyline.whatif.base import Applicability, Grain, Provenance, Scenario, Semantics, Subject, UsualWhatIf
from skyline.whatif.constant import FLOAT_BYTES, Constant
from skyline.whatif.cost.embedding_rows import DENSE_GRADIENTS, LOOKUPS, dense_rows, is_table, updates_of
from skyline.whatif.cost.host_bus import IN, OUT, bytes_per_us, lane_beside
from skyline.whatif.cost.optimizer_step import update_of
from skyline.whatif.memory import Memory
from skyline.whatif.question import whole_number

_MB = Constant.at(1e6, "megabytes are decimal, as everywhere in reports")
_OFFERED = (0.25, 1.0, 4.0)
"""Offered sizes, relative to the default one."""
_GATHER_GB_S = Constant(
    8.0, 3.0, 25.0, "an assumption: rows at random places of a server's memory, with all of its cores"
)
_UPDATE_BYTES = Constant.at(
    28.0, "bytes per number of a fused update with two moments, where it is not known"
)
_NAMED = Constant.at(4, "tables that are named with their part: more would fill a screen")
HOST, GPU = "embedding rows on the host", "embedding rows on the GPU"


@dataclass(frozen=True, slots=True)
class _Split:
    """The tables divided at a size: the rows kept on the GPU and the rows looked up on the host, per iteration."""

    paths: tuple[str, ...]
    shapes: tuple[tuple[int, int], ...]
    total_bytes: float
    hot_bytes: float
    hit_share: float
    least_share: float
    most_share: float
    cold_bytes: float
    whole_samples: float
    lookup_bytes: float
    dense: bool

    @property
    def rest_bytes(self) -> float:
        """The bytes of rows that are not hot."""
        return self.total_bytes - self.hot_bytes

    def at(self, share: float) -> _Split:
        """This split with another share of lookups answered by hot rows; the other rows change with the misses."""
        misses = 1 - self.hit_share
        larger = (1 - share) / misses if misses > 0 else 1.0
        return replace(self, hit_share=share, cold_bytes=min(self.rest_bytes, larger * self.cold_bytes))

    def gradient_share(self, kept_bytes: float, touched_bytes: float) -> float:
        """The share of a gradient's work that remains for so many bytes of the table and of the lookups."""
        if not self.dense:
            return touched_bytes / self.lookup_bytes if self.lookup_bytes else 1.0
        return dense_rows(kept_bytes, touched_bytes) / dense_rows(self.total_bytes, self.lookup_bytes)


@dataclass(frozen=True, slots=True)
class HotEmbeddings(UsualWhatIf):
    """Divides embeddings between the GPU and its host by how often their rows are looked up.

    FAE (Adnan and others, 2021) and Hotline (Adnan and others, 2022) do this: samples whose rows are all on
    the GPU go first, while the host gathers the rows of the other samples.
    """

    name: str = "hot_embeddings"
    semantics: Semantics = Semantics.CONVERGENCE
    excludes: tuple[str, ...] = ("sparse_embedding", "offload_optimizer", "stale_embeddings")

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"the hottest {value or 'few'} MB of the embeddings on the GPU, the other rows on the host"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable on a GPU if a run showed which rows of large embeddings are looked up."""
        profile = subject.script
        reason = why_unknown(profile)
        if reason:
            return Applicability.no(reason)
        values = profile.values
        assert values is not None
        sizes, usual = offered_mb(values), usual_mb(values)
        if not subject.on_gpu:
            return Applicability.no(f"nothing ran on a GPU; on one, {_told(values, usual)}")
        places = {_place(subject, table.path) for table in values.tables}
        if "" in places:
            return Applicability.no("no lookup of these embeddings was recorded")
        if len(places) > 1:
            return Applicability.no("some of its embeddings are on the host already, and some on the GPU")
        return Applicability(True, values=tuple(map(str, sizes)), default=str(usual))

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Tables on the GPU lose their cold rows to the host; tables on the host lose their hot rows to the GPU."""
        size_bytes = whole_number(self.name, value) * _MB.value
        values = subject.script.values
        assert values is not None
        split = _split(values, size_bytes, scenario.batch_factor(subject), subject.script)
        on_host = _place(subject, values.tables[0].path) == HOST
        if split.rest_bytes <= 0 and not on_host:
            return scenario
        best, worst = split.at(split.most_share), split.at(split.least_share)
        if on_host:
            likely, least, most = (
                _moved_to_gpu(subject, scenario.graph, one, copies=copies)
                for one, copies in ((split, True), (best, True), (worst, False))
            )
        else:
            likely, least, most = (
                _divided(subject, scenario.graph, one, bus, getattr(_GATHER_GB_S, end), waits=whole)
                for one, end, bus, whole in (
                    (split, "value", bytes_per_us(subject), split.whole_samples),
                    (best, "high", bytes_per_us(subject, "high"), split.whole_samples),
                    (worst, "low", bytes_per_us(subject, "low"), 0.0),
                )
            )
        return scenario.between(
            subject,
            likely,
            least,
            most,
            assumptions=_assumptions(values, split),
            memory=lambda memory: _memory(memory, subject, split, on_host=on_host),
            provenance=Provenance.ASSUMED,
        )


def why_unknown(profile: Profile) -> str:
    """The reason why the looked-up rows of the embeddings are not known; empty if they are."""
    if not profile.modules:
        return "the layers of the model are not known; profile it again"
    if not any(is_table(module) for module in profile.modules):
        return "the model trains no embedding"
    values = profile.values
    if values is None:
        if profile.prediction is not None:
            return "a prediction shows no lookups: profile a run of the script first, which may be on a CPU"
        return "the looked-up rows of its embeddings were not observed in this run"
    if values.problem:
        return f"the looked-up rows could not be read: {values.problem}"
    if not values.tables:
        return "its embeddings are small: they take less than 1 MiB each"
    return "" if values.hot else "too few lookups were seen"


def usual_mb(values: TensorValues) -> int:
    """The size in whole MB whose share of the lookups exceeds its share of the bytes by the most."""
    total = _total_bytes(values)
    best = max(values.hot, key=lambda one: one.hit_share - one.size_bytes / total)
    return max(1, round(best.size_bytes / _MB.value))


def offered_mb(values: TensorValues) -> tuple[int, ...]:
    """The offered sizes in whole MB around the usual one, below the size of all tables."""
    usual, total_mb = usual_mb(values), _total_bytes(values) / _MB.value
    sizes = {max(1, round(factor * usual)) for factor in _OFFERED}
    return tuple(sorted({usual, *(size for size in sizes if size < total_mb)}))


def _total_bytes(values: TensorValues) -> float:
    return float(sum(table.size_bytes for table in values.tables))


def _told(values: TensorValues, size_mb: int) -> str:
    hot = hot_at(values.hot, size_mb * _MB.value)
    total = format_bytes(_total_bytes(values))
    return (
        f"the hottest {size_mb} MB of {total} would answer {format_share(hot.hit_share)} of the lookups, "
        f"and {format_bytes(hot.cold_bytes)} of other rows would cross the bus each way: skyline profile --gpu NAME"
    )


def _split(values: TensorValues, size_bytes: float, larger: float, profile: Profile) -> _Split:
    tables = values.tables
    total = _total_bytes(values)
    size = min(total, size_bytes)
    hot = hot_at(values.hot, size)
    sparse = {module.path for module in profile.modules if module.options.get("sparse")}
    return _Split(
        paths=tuple(table.path for table in tables),
        shapes=tuple((table.rows, int(table.row_bytes / FLOAT_BYTES.value)) for table in tables),
        total_bytes=total,
        hot_bytes=size,
        hit_share=hot.hit_share,
        least_share=min(hot.least_share, hot.hit_share),
        most_share=max(hot.most_share, hot.hit_share),
        cold_bytes=min(total - size, larger * hot.cold_bytes),
        whole_samples=hot.whole_samples or 0.0,
        lookup_bytes=larger * sum(table.lookups * table.row_bytes for table in tables),
        dense=not sparse.issuperset(table.path for table in tables),
    )


def _assumptions(values: TensorValues, split: _Split) -> tuple[str, ...]:
    ends = f"{format_share(split.least_share)} to {format_share(split.most_share)}"
    seen = f"{format_share(split.hit_share)} ({ends}) of the lookups find their row on the GPU, by {values.basis}"
    moved = f"{format_bytes(split.cold_bytes)} of other rows cross the bus each way"
    whole = f"{format_share(split.whole_samples)} of the samples need no other row and go first"
    rate = f"{_GATHER_GB_S.value:.0f} GB/s, from {_GATHER_GB_S.low:.0f} to {_GATHER_GB_S.high:.0f}"
    return (
        f"{seen}; {moved}; {whole}",
        *_by_table(values, split),
        f"the host gathers and updates rows at {rate}",
        "both parts of a batch together take as long as the whole batch, and layers that normalize see each by itself",
        "the rows that are hot stay the same",
    )


def _by_table(values: TensorValues, split: _Split) -> tuple[str, ...]:
    """The tables with the most bytes on the GPU in words, if there are several tables."""
    kept = hot_at(values.hot, split.hot_bytes).table_bytes
    if len(kept) < 2 or len(kept) != len(values.tables):
        return ()
    order = sorted(zip(kept, values.tables, strict=True), key=lambda pair: -pair[0])
    named = [
        f"{format_bytes(size)} of {format_bytes(table.size_bytes)} of {table.path}"
        for size, table in order[: int(_NAMED.value)]
    ]
    others = f", and {len(order) - int(_NAMED.value)} more tables" if len(order) > _NAMED.value else ""
    return (f"on the GPU: {', '.join(named)}{others}",)


def _place(subject: Subject, path: str) -> str:
    """The place where a table is looked up: ``GPU`` or ``HOST``; empty if no lookup was recorded."""
    graph = subject.graph_of(Grain.OPERATORS)
    if len(_lookups(graph, (path,), on_gpu=True)):
        return GPU
    return HOST if len(_lookups(graph, (path,), on_gpu=False)) else ""


def _lookups(graph: Graph, paths: tuple[str, ...], *, on_gpu: bool, iteration: int | None = None) -> Indices:
    if on_gpu:
        return select(graph, phase=Phase.FORWARD, layer=paths, kind=TaskKind.KERNEL, iteration=iteration)
    return select(graph, phase=Phase.FORWARD, layer=paths, name=LOOKUPS, on_gpu=False, iteration=iteration)


def _divided(
    subject: Subject, graph: Graph, split: _Split, bus: float, gather_gb_s: float, *, waits: float
) -> Graph:
    """The graph with the GPU's tables without cold rows, which are needed after the share ``waits`` of the work."""
    gradients = select(graph, phase=Phase.BACKWARD, layer=split.paths, kind=TaskKind.KERNEL)
    graph = scale(
        graph, gradients, split.gradient_share(split.hot_bytes + split.cold_bytes, split.lookup_bytes)
    )
    if split.dense:
        update = select(graph, phase=Phase.OPTIMIZER, kind=TaskKind.KERNEL)
        trained = FLOAT_BYTES.value * sum(fact.parameter_count for fact in subject.script.optimizers)
        graph = scale(graph, update, max(0.0, 1 - split.rest_bytes / trained) if trained else 1.0)
    gather_us = split.cold_bytes / (gather_gb_s * 1e3)
    update_us = gather_us * _update_bytes(subject) / FLOAT_BYTES.value
    copy_us = split.cold_bytes / bus
    insertions: list[Insertion] = []
    joins: list[Dependency] = []

    def add(
        name: str, kind: TaskKind, lane: str, phase: Phase, us: float, behind: int, iteration: int
    ) -> int:
        task = Task(name, kind, WorkClass.OTHER, lane, phase, iteration)
        insertions.append(Insertion(task, us, behind))
        return len(graph) + len(insertions) - 1

    for iteration in graph.iterations:
        found = _lookups(graph, split.paths, on_gpu=True, iteration=iteration)
        work = select(graph, kind=TaskKind.KERNEL, phase=(Phase.FORWARD, Phase.BACKWARD), iteration=iteration)
        if not len(found) or not len(work):
            continue
        stream = graph.tasks.lanes[int(graph.tasks.lane[work[0]])]
        first = int(work[0])
        waiting = max(int(found[0]), _behind(graph, work, waits))
        gathered = add(HOST, TaskKind.CPU, HOST, Phase.FORWARD, gather_us, first - 1, iteration)
        copied = add(IN, TaskKind.COPY, lane_beside(stream, IN), Phase.FORWARD, copy_us, first - 1, iteration)
        last = int(work[-1])
        back = add(OUT, TaskKind.COPY, lane_beside(stream, OUT), Phase.BACKWARD, copy_us, last, iteration)
        updated = add(HOST, TaskKind.CPU, HOST, Phase.BACKWARD, update_us, last, iteration)
        joins += [
            Dependency(gathered, copied, Cause.LAUNCH),
            Dependency(copied, waiting, Cause.EVENT),
            Dependency(last, back, Cause.EVENT),
            Dependency(back, updated, Cause.SYNC),
        ]
    return insert(graph, insertions, joins) if insertions else graph


def _behind(graph: Graph, work: Indices, share: float) -> int:
    """The task that begins when this share of all work is done."""
    done = np.cumsum(graph.durations[work])
    place = int(np.searchsorted(done, share * float(done[-1]), side="right"))
    return int(work[min(place, len(work) - 1)])


def _update_bytes(subject: Subject) -> float:
    known = [update_of(fact) for fact in subject.script.optimizers]
    found = [one.fused_bytes for one in known if one is not None]
    return float(max(found)) if found else _UPDATE_BYTES.value


def _moved_to_gpu(subject: Subject, graph: Graph, split: _Split, *, copies: bool) -> Graph:
    """The graph with the host's tables without hot rows: the host's work on them, and the copies, shrink."""
    miss = 1 - split.hit_share
    found = _lookups(graph, split.paths, on_gpu=False)
    graph = scale(graph, found, miss)
    made = select(graph, phase=Phase.BACKWARD, layer=split.paths, name=DENSE_GRADIENTS, on_gpu=False)
    left = split.gradient_share(split.rest_bytes, miss * split.lookup_bytes)
    graph = scale(graph, made, left)
    updates = [updates_of(subject, graph, shape) for shape in dict.fromkeys(split.shapes)]
    stays = split.rest_bytes / split.total_bytes if split.dense else miss
    graph = scale(graph, np.unique(np.concatenate(updates)), stays)
    if not copies:
        return graph
    moved = select(graph, kind=TaskKind.COPY, phase=(Phase.FORWARD, Phase.BACKWARD))
    return scale(graph, moved, miss)


def _memory(memory: Memory, subject: Subject, split: _Split, *, on_host: bool) -> Memory:
    """The GPU's peak without the cold rows except those of the batch, or with the hot rows."""
    moved = split.hot_bytes if on_host else split.rest_bytes
    facts = subject.script.optimizers
    trained = FLOAT_BYTES.value * sum(fact.parameter_count for fact in facts)
    state = sum(fact.state_bytes for fact in facts) * moved / trained if trained else 0.0
    sizes = (("parameters", moved), ("gradients", moved if split.dense else 0.0), ("optimizer", state))
    change = Memory.more if on_host else Memory.less
    for owner, size in sizes:
        memory = change(memory, owner, Interval.exact(size))
    return memory.more("other", Interval.exact(split.cold_bytes))


WHATIF = HotEmbeddings()
