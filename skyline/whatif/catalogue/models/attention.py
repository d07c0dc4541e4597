"""Attention written out by hand: product, softmax, product, with a matrix of all pairs in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from math import prod

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import WORK, TaskKind, WorkClass
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import OperatorShape, Phase
from skyline.whatif.subject import Subject, shapes

_REACH = 40
"""The largest distance in operators between a softmax and its products: scaling, masks, dropout and views."""
_LEAST_POSITIONS = 8
_WIDEST = 1024
_MASKING = ("masked_fill", "where")
_ELEMENT_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class Pairs:
    """The size of one attention: ``heads`` matrices (batch by heads) of ``rows`` by ``columns`` pairs.

    ``width`` is the width of a head. ``causal`` is true if a mask that all samples share hides a part of a
    square matrix. ``kept_bytes`` is the size of the matrices kept for the backward pass, and ``matrix_bytes``
    that of one of them. ``dropped`` is true if some of the weights are dropped at random.
    """

    heads: int
    rows: int
    columns: int
    width: int
    causal: bool
    kept_bytes: int
    matrix_bytes: int
    dropped: bool = False

    @property
    def flops(self) -> int:
        """The arithmetic of both products together, regardless of a mask."""
        return 4 * self.heads * self.rows * self.columns * self.width

    @property
    def elements(self) -> int:
        """The number of elements in all matrices of pairs."""
        return self.heads * self.rows * self.columns


@dataclass(frozen=True, slots=True)
class AttentionCall:
    """One forward pass over an attention: tasks of a graph, by their indices."""

    pairs: Pairs
    products: tuple[int, int]
    softmax: int
    others: tuple[int, ...]
    """Other work on the matrices: scaling, masks, dropout, and copies made for the products."""


@dataclass(slots=True)
class Site:
    """The calls at one place of the model in one iteration, with their common backward pass.

    ``repeated`` are calls that another change, such as checkpointing, repeats in the backward pass.
    """

    calls: list[AttentionCall] = field(default_factory=list[AttentionCall])
    repeated: list[AttentionCall] = field(default_factory=list[AttentionCall])
    backward_products: list[int] = field(default_factory=list[int])
    backward_others: list[int] = field(default_factory=list[int])


_Place = tuple[int, int, int]
"""Iteration, module and line."""
_Key = tuple[int, tuple[tuple[int, int], ...]]
"""An iteration, and the modules and lines of all tasks of a call."""


def written_out(subject: Subject, graph: Graph) -> tuple[Site, ...]:
    """Every place where attention is computed step by step; none if the shapes of operators are not known."""
    kind = TaskKind.KERNEL if subject.on_gpu else TaskKind.CPU
    forward = select(graph, kind=kind, phase=Phase.FORWARD)
    backward = select(graph, kind=kind, phase=Phase.BACKWARD)
    # Work that another change repeats in the backward pass comes from the same rows of the recording.
    again = np.isin(graph.tasks.origin[backward], graph.tasks.origin[forward])
    sites: dict[_Key, Site] = {}
    for key, found in _calls(subject, graph, forward):
        sites.setdefault(key, Site()).calls.append(found)
    for key, found in _calls(subject, graph, backward[again]):
        if key in sites:
            sites[key].repeated.append(found)
    _with_backward(subject, graph, sites, backward[~again])
    return tuple(sites.values())


def _calls(subject: Subject, graph: Graph, forward: Indices) -> Iterator[tuple[_Key, AttentionCall]]:
    """Each computation of attention among these tasks, with the key of its place in the program."""
    known = shapes(subject, graph, forward)
    for place, index in enumerate(forward.tolist()):
        name = graph.tasks.names[graph.tasks.name[index]]
        shape = known[place]
        if shape is None or not _is_softmax(name, shape):
            continue
        found = _call(graph, forward, known, place, shape)
        if found is not None:
            members = (*found.products, found.softmax, *found.others)
            iteration = int(graph.tasks.iteration[index])
            yield (
                (
                    iteration,
                    tuple(sorted({(int(graph.tasks.module[m]), int(graph.tasks.line[m])) for m in members})),
                ),
                found,
            )


def _is_softmax(name: str, shape: OperatorShape) -> bool:
    sizes = shape.inputs[0] if shape.inputs else ()
    return (
        "softmax" in name
        and "log_softmax" not in name
        and len(sizes) in (3, 4)
        and min(sizes[-2:]) >= _LEAST_POSITIONS
    )


def _call(
    graph: Graph,
    forward: Indices,
    known: list[OperatorShape | None],
    place: int,
    softmax: OperatorShape,
) -> AttentionCall | None:
    tasks = graph.tasks
    sizes = softmax.inputs[0]
    heads, rows, columns = prod(sizes[:-2]), sizes[-2], sizes[-1]
    per_width = 2 * heads * rows * columns

    def width(at: int) -> int:
        """The width of a head if this product computes or reads all matrices of pairs; else 0."""
        shape = known[at]
        if shape is None or tasks.work[forward[at]] != WORK[WorkClass.MATMUL] or shape.flops <= 0:
            return 0
        wide, rest = divmod(shape.flops, per_width)
        return wide if not rest and wide <= _WIDEST and not _has_weight(shape) else 0

    iteration = tasks.iteration[forward[place]]

    def near(places: Iterator[int]) -> int | None:
        for at in places:
            if tasks.iteration[forward[at]] != iteration:
                return None
            if width(at):
                return at
        return None

    first = near(iter(range(place - 1, max(-1, place - _REACH), -1)))
    second = near(iter(range(place + 1, min(len(forward), place + _REACH))))
    if first is None or second is None:
        return None
    others: list[int] = []
    causal = dropped = False
    for at in range(first + 1, second):
        shape = known[at]
        if at == place or shape is None or not _has_pairs(shape, rows, columns):
            continue
        others.append(int(forward[at]))
        name = tasks.names[int(tasks.name[forward[at]])]
        whole = any(prod(each) == heads * rows * columns for each in shape.inputs)
        shared = any(prod(each) == rows * columns for each in shape.inputs[1:])
        hides = any(mark in name for mark in _MASKING) or (shared and "add" in name)
        causal |= hides and rows == columns and whole and (shared or "where" in name)
        # Disabled dropout returns its input at once.
        dropped |= "dropout" in name and _takes_time(graph, int(forward[at]), int(forward[place]))
    others += _copies(graph, forward, known, first, second, heads, width(first))
    element = _ELEMENT_BYTES.get(softmax.dtypes[0] if softmax.dtypes else "float32", 4)
    matrix = heads * rows * columns * element
    kept = matrix + (matrix + heads * rows * columns if dropped else 0)
    pairs = Pairs(heads, rows, columns, width(first), causal, kept, matrix, dropped)
    return AttentionCall(
        pairs, (int(forward[first]), int(forward[second])), int(forward[place]), tuple(others)
    )


def _copies(
    graph: Graph,
    forward: Indices,
    known: list[OperatorShape | None],
    first: int,
    second: int,
    heads: int,
    width: int,
) -> list[int]:
    """The kernels that copy queries, keys and values for the products; fused attention needs no copies."""
    tasks = graph.tasks
    lines = {int(tasks.line[forward[at]]) for at in (first, second)}
    found: list[int] = []
    for at in range(max(0, first - 4), second):
        shape, index = known[at], int(forward[at])
        if shape is None or int(tasks.line[index]) not in lines or len(shape.inputs) != 1:
            continue
        name, sizes = tasks.names[int(tasks.name[index])], shape.inputs[0]
        if "clone" in name and width in sizes[-2:] and prod(sizes[:-2]) == heads:
            found.append(index)
    return found


def _has_weight(shape: OperatorShape) -> bool:
    """True if a product has a plain matrix as a factor, as in a linear layer."""
    return "linear" in shape.operator or "addmm" in shape.operator or "::mm" in shape.operator


def _has_pairs(shape: OperatorShape, rows: int, columns: int) -> bool:
    wanted = ((rows, columns), (columns, rows))
    return any(sizes[-2:] in wanted for sizes in (*shape.inputs, *shape.outputs))


def _takes_time(graph: Graph, index: int, beside: int) -> bool:
    return bool(graph.durations[index] > 0.05 * graph.durations[beside])


def _with_backward(
    subject: Subject,
    graph: Graph,
    sites: dict[_Key, Site],
    backward: Indices,
) -> None:
    """Add to each site its backward tasks: those at the same modules and lines that work on matrices of its size."""
    tasks = graph.tasks
    of_place: dict[_Place, Site] = {}
    for (iteration, places), site in sites.items():
        of_place.update({(iteration, module, line): site for module, line in places})
    keys = zip(
        tasks.iteration[backward].tolist(),
        tasks.module[backward].tolist(),
        tasks.line[backward].tolist(),
        strict=True,
    )
    concerned = np.array([key in of_place for key in keys], np.bool_)
    chosen = backward[concerned] if len(backward) else backward
    for index, shape in zip(chosen.tolist(), shapes(subject, graph, chosen), strict=True):
        if shape is None:
            continue
        site = of_place[int(tasks.iteration[index]), int(tasks.module[index]), int(tasks.line[index])]
        pairs = site.calls[0].pairs
        half = pairs.flops // 2
        is_product = tasks.work[index] == WORK[WorkClass.MATMUL]
        if is_product and shape.flops in (half, 2 * half) and not _has_weight(shape):
            site.backward_products.append(index)
        elif not is_product and _has_pairs(shape, pairs.rows, pairs.columns):
            site.backward_others.append(index)
