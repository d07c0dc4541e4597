"""A script with different modules as layers in the order in which they run. A pipeline can be cut between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from skyline.plan.layers import LayerPart
from skyline.trace.facts import ModuleFact
from skyline.trace.record import OperatorShape

_CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")
"""PyTorch's modules whose members count as separate layers."""

Operators = Sequence[tuple[str, OperatorShape]]
"""Operators in the order of execution, each with the path of its module."""


def chain_of(modules: Sequence[ModuleFact], forward: Operators, backward: Operators) -> tuple[LayerPart, ...]:
    """The layers of one pass. Empty if there are fewer than two, or if the activations of one are unknown.

    A layer is the outermost module that is not a container. Layers that alternate are merged. Operators
    outside layers belong to the previous layer.
    """
    facts = {module.path: module for module in modules}
    groups = _in_order([_layer(path, facts) for path, _ in forward])
    kept = {path: facts[path].kept_bytes for group in groups for path in group}
    if len(groups) < 2 or None in kept.values():
        return ()
    place = {path: number for number, group in enumerate(groups) for path in group}
    ahead = _by_layer(forward, place, facts, 0, len(groups))
    back = _by_layer(backward, place, facts, len(groups) - 1, len(groups))
    parameters = [0.0] * len(groups)
    for module in modules:
        # Parameters of the model itself are mostly positions, which the first layers need.
        parameters[place.get(_layer(module.path, facts), 0)] += module.parameter_count
    saved = [float(sum(kept[path] or 0 for path in group)) for group in groups]
    # The remaining kept memory belongs to the loss.
    saved[-1] += max(0.0, max(one.kept_bytes or 0 for one in modules) - sum(saved))
    return tuple(
        LayerPart(
            ahead[number],
            back[number],
            ahead[number],
            parameters[number],
            saved[number],
            saved[number] / 2,
            float(_passed_bytes(ahead, number)),
            group[0].partition(".")[2],
        )
        for number, group in enumerate(groups)
    )


def input_bytes(shapes: Sequence[OperatorShape]) -> int:
    """The bytes of the largest input of the first operator, which one stage passes to the next."""
    return max((_largest_bytes(shape.inputs, shape.dtypes) for shape in shapes[:1]), default=0)


def _passed_bytes(ahead: Sequence[Sequence[OperatorShape]], number: int) -> int:
    """The output of the previous layer: the largest input of the first operator may be its weight."""
    before = [shape for shapes in ahead[:number] for shape in shapes]
    if not before:
        return input_bytes(ahead[number])
    return _largest_bytes(before[-1].outputs, before[-1].output_dtypes)


def _largest_bytes(sizes: Sequence[Sequence[int]], dtypes: Sequence[str]) -> int:
    widths = (2 if "16" in dtype else 4 for dtype in dtypes)
    return max((prod(size) * width for size, width in zip(sizes, widths, strict=False)), default=0)


def _layer(path: str, facts: Mapping[str, ModuleFact]) -> str:
    """The layer of a module; empty for the model itself and its containers."""
    names = path.split(".")
    for depth in range(2, len(names) + 1):
        fact = facts.get(".".join(names[:depth]))
        if fact is not None and not (fact.library and fact.class_name in _CONTAINERS):
            return fact.path
    return ""


def _in_order(layers: Sequence[str]) -> list[list[str]]:
    """Layers in the order of their first operators. A layer and those that run between its operators form a group."""
    last = {layer: place for place, layer in enumerate(layers) if layer}
    groups: list[list[str]] = []
    end = -1
    for place, layer in enumerate(layers):
        if not layer or any(layer in group for group in groups[-1:]):
            continue
        if place > end:
            groups.append([])
        groups[-1].append(layer)
        end = max(end, last[layer])
    return groups


def _by_layer(
    operators: Operators, place: Mapping[str, int], facts: Mapping[str, ModuleFact], start: int, count: int
) -> list[tuple[OperatorShape, ...]]:
    found: list[list[OperatorShape]] = [[] for _ in range(count)]
    number = start
    for path, shape in operators:
        number = place.get(_layer(path, facts), number)
        found[number].append(shape)
    return [tuple(one) for one in found]
