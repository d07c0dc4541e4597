"""Linear layers whose weight is replaced by several: the layers that qualify, their products, and the effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.task import PHASE, WorkClass
from skyline.interval import End
from skyline.trace.profile import Profile
from skyline.trace.record import PASSES, Phase
from skyline.whatif.cost.added_layers import with_layer_behind
from skyline.whatif.cost.embedding_rows import Table, is_shared, is_table
from skyline.whatif.cost.factored_layers import (
    Factored,
    OneWeight,
    Split,
    flops_of,
    pairs,
    product_kind,
    split_products,
    tasks_of,
)
from skyline.whatif.subject import Subject, shapes


def linear_layers(profile: Profile) -> tuple[Factored, ...]:
    """The trainable linear layers with a weight of their own that are not half of a split layer; with rank 0."""
    of_split = halves(profile)
    return tuple(
        Factored(module, inputs, outputs, 0)
        for module in profile.modules
        if module.class_name == "Linear"
        and module.library
        and module.trainable
        and module.calls_per_iteration > 0
        and module.path not in of_split
        and isinstance(inputs := module.options.get("in_features"), int)
        and isinstance(outputs := module.options.get("out_features"), int)
        and not _is_tied(profile, inputs, outputs)
    )


def halves(profile: Profile) -> set[str]:
    """Paths of linear layers that are the halves of a split one: the first has no bias."""
    return {
        half.path
        for first, second in pairs(profile)
        for half in (first, second)
        if first.class_name == second.class_name == "Linear"
        and first.options.get("bias") is False
        and first.options.get("out_features") == second.options.get("in_features")
    }


def _is_tied(profile: Profile, inputs: int, outputs: int) -> bool:
    """True if an embedding shares the weight."""
    alike = (
        Table(module, outputs, inputs, 0.0)
        for module in profile.modules
        if is_table(module)
        and (module.options.get("num_embeddings"), module.options.get("embedding_dim")) == (outputs, inputs)
    )
    return any(is_shared(profile, table) for table in alike)


def products(subject: Subject, graph: Graph, layers: Sequence[OneWeight], *phases: Phase) -> Indices:
    """The tasks that multiply in these layers: in both passes and without gradients, unless phases are given."""
    return tasks_of(
        graph,
        layers,
        kind=product_kind(subject),
        work=WorkClass.MATMUL,
        phase=phases or (*PASSES, Phase.OTHER),
    )


def with_products(
    subject: Subject, graph: Graph, layers: Sequence[OneWeight], larger: float, end: End
) -> Graph:
    """The graph with the products of all passes replaced by two layer calls, for batches ``larger`` times as large."""
    if not layers:
        return graph
    chosen = products(subject, graph, layers)
    by_path = {layer.module.path: layer for layer in layers}
    splits: list[Split] = []
    for task, rows in zip(chosen.tolist(), rows_of(subject, graph, chosen, by_path), strict=True):
        layer = by_path[graph.structure.modules[int(graph.tasks.module[task])]]
        back = int(graph.tasks.phase[task]) == PHASE[Phase.BACKWARD]
        splits.append(Split.of(layer, max(1, round(larger * rows)), back=back))
    return with_layer_behind(subject, split_products(subject, graph, chosen, splits, end), layers, chosen)


def rows_of(subject: Subject, graph: Graph, chosen: Indices, layers: Mapping[str, OneWeight]) -> list[int]:
    """The number of rows of each product, from its arithmetic or else from the size of its input.

    If one task computes all gradients of a layer, these are the weight's and, unless nothing before it
    trains, the input's. The number of rows then comes from the size of the incoming gradient.
    """
    found: list[int] = []
    for task, shape in zip(chosen.tolist(), shapes(subject, graph, chosen), strict=True):
        layer = layers[graph.structure.modules[int(graph.tasks.module[task])]]
        back = int(graph.tasks.phase[task]) == PHASE[Phase.BACKWARD]
        flops = flops_of(subject, graph, task, shape)
        numbers = 0 if shape is None or not shape.inputs else prod(shape.inputs[0])
        by_size = numbers // (layer.outputs if back else layer.inputs)
        both = back and shape is not None and "Backward" in shape.operator
        by_work = flops // ((4 if both else 2) * layer.before)
        found.append(max(1, (by_size or by_work) if both else (by_work or by_size)))
    return found
