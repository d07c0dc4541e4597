"""What if embeddings were narrower or wider, and a linear layer followed."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.interval import ENDS, End
from skyline.lazy_dataclass import dataclass
from skyline.trace.profile import Profile
from skyline.trace.record import PASSES, OperatorShape, Phase
from skyline.whatif.base import Applicability, Grain, Provenance, Scenario, Semantics, Subject, UsualWhatIf
from skyline.whatif.constant import FLOAT_BYTES, Constant
from skyline.whatif.cost.added_layers import with_layer_behind
from skyline.whatif.cost.embedding_rows import Table, is_shared, is_table
from skyline.whatif.cost.factored_layers import (
    Factored,
    Split,
    called_us,
    offered,
    pairs,
    parameters,
    product_kind,
    product_rate,
    products_us,
    tasks_of,
    why_not,
    with_weights,
)
from skyline.whatif.cost.numpy_weights import with_numpy
from skyline.whatif.cost.thread_scaling import CALL_US
from skyline.whatif.cost.weight_update import with_gradients_added, with_update
from skyline.whatif.question import whole_number
from skyline.whatif.subject import shapes

_WIDTHS = tuple(2**power for power in range(1, 13))
_USUAL = Constant.at(
    0.25, "an assumption: the numbers to look up that are offered, over those of the widest table"
)
_ROW = Constant(
    16.0,
    1.0,
    64.0,
    "an assumption: numbers of a row below which looking it up takes as long: a line of a cache",
)
CAVEAT = "training tolerates embeddings of another rank; its loss is not predicted"


@dataclass(frozen=True, slots=True)
class EmbeddingFactorization(UsualWhatIf):
    """Scales the work on tables to their new width, and adds the products after them.

    ALBERT (Lan and others, 2020) has tables narrower than their results, MLET (Ghaemmaghami and others, 2020)
    wider ones.
    """

    name: str = "embedding_factorization"
    semantics: Semantics = Semantics.MODEL
    excludes: tuple[str, ...] = ("pad_to_multiple", "sparse_embedding")

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"embeddings of dimension {value or 'n'}, each followed by a linear layer"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if narrower tables save time or memory."""
        profile = subject.script
        layers = embeddings(profile)
        if reason := why_not(subject, layers, _why_none):
            return Applicability.no(reason)
        widest = max(layers, key=lambda one: one.before).outputs
        narrower = [one for one in _WIDTHS if one < widest and factored_tables(profile, one)]
        if not narrower:
            return Applicability.no(
                "its embeddings have too few rows, or too small a dimension, to shrink by factoring"
            )
        usual = max((one for one in narrower if one <= _USUAL.value * widest), default=narrower[0])
        graph = subject.graph_of(Grain.OPERATORS)
        chosen = factored_tables(profile, usual)
        if not len(_lookups(subject, graph, chosen, Phase.FORWARD)):
            return Applicability.no("no lookup of an embedding was recorded")
        return offered(
            subject, chosen, lambda now: _changed(subject, now, chosen, 1.0, "value"), usual, narrower
        )

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale lookups, their gradients and the update; add three products for each table."""
        between = whole_number(self.name, value)
        layers = factored_tables(subject.script, between)
        if not layers:
            reason = f"its embeddings already have dimension {between}, or no more rows than that"
            return replace(scenario, reason=reason)
        larger = scenario.pass_factor(subject)
        cases = (_changed(subject, scenario.graph, layers, larger, end) for end in ENDS)
        lookups = _lookups(subject, scenario.graph, layers, Phase.FORWARD)
        rows = larger * sum(_rows(subject, scenario.graph, lookups)) / max(1, subject.steps)
        less, whole = parameters(subject, layers)
        known = subject.on_gpu or product_rate(subject, scenario.graph)[1]
        change = (
            f"{less:,} of {whole:,} parameters are removed"
            if less > 0
            else f"{-less:,} parameters are added to {whole:,}"
        )
        return scenario.between(
            subject,
            *cases,
            assumptions=(
                f"factored tables: {len(layers)} of {len(embeddings(subject.script))}; {change}",
                "the new matrix products reach the recorded rate"
                if known
                else "the rate of matrix products is an assumed range: the recording has none",
                CAVEAT,
            ),
            memory=with_weights(subject, layers, FLOAT_BYTES.value * between * rows),
            provenance=Provenance.MODELLED if known else Provenance.ASSUMED,
        )


def embeddings(profile: Profile) -> tuple[Factored, ...]:
    """The trainable tables with their own dense gradients that can be factored into a product; with rank 0."""
    halves = _halves(profile)
    return tuple(
        Factored(module, rows, width, 0)
        for module in profile.modules
        if is_table(module)
        and module.calls_per_iteration > 0
        and module.path not in halves
        and not module.options.get("sparse")
        and module.options.get("max_norm") is None
        and module.options.get("mode") != "max"
        and isinstance(rows := module.options.get("num_embeddings"), int)
        and isinstance(width := module.options.get("embedding_dim"), int)
        and not is_shared(profile, Table(module, rows, width, 0.0))
    )


def factored_tables(profile: Profile, between: int) -> tuple[Factored, ...]:
    """The tables to factor so that ``between`` numbers are looked up: those that become smaller by it.

    If no table is wider than ``between``, all tables with more rows become wider, to train better embeddings
    (MLET).
    """
    every = tuple(replace(one, rank=between) for one in embeddings(profile))
    if any(one.outputs > between for one in every):
        return tuple(one for one in every if one.outputs > between and one.less > 0)
    return tuple(one for one in every if one.outputs < between < one.inputs)


def _halves(profile: Profile) -> set[str]:
    """Paths of embeddings that a linear layer without a bias follows."""
    return {
        first.path
        for first, second in pairs(profile)
        if is_table(first) and second.class_name == "Linear" and second.options.get("bias") is False
    }


def _why_none(profile: Profile) -> str:
    trained = [module for module in profile.modules if is_table(module)]
    if not trained:
        return "the model trains no embedding"
    if any(one.path in _halves(profile) for one in trained):
        return "its embeddings are factored already"
    if any(one.options.get("sparse") for one in trained):
        return "the gradients of its embeddings are sparse: an update already touches few rows only"
    if any(one.options.get("max_norm") is not None or one.options.get("mode") == "max" for one in trained):
        return "max_norm and mode='max' would apply to the narrower rows, not to the embeddings"
    return "another layer shares the weights of its embeddings"


def _changed(subject: Subject, graph: Graph, layers: tuple[Factored, ...], larger: float, end: End) -> Graph:
    rate = product_rate(subject, graph)[0]
    product_us = called_us(subject, graph, end)
    durations = graph.durations.copy()
    looked_up: list[Indices] = []
    for layer in layers:
        for phase in PASSES:
            found = _lookups(subject, graph, (layer,), phase)
            narrowest = getattr(_ROW, end)
            ratio = max(layer.rank, narrowest) / max(layer.outputs, narrowest)
            call_us = np.minimum(0.0 if subject.on_gpu else CALL_US, 0.5 * graph.durations[found])
            durations[found] = call_us + ratio * (graph.durations[found] - call_us)
            back = phase is Phase.BACKWARD
            split = Split.of(layer, max(1, round(larger * _rows_each(subject, graph, layer))), back=back)
            # Only the product after the table counts: the table itself is looked up.
            products = split.then[2:] if back else split.then[1:]
            # One operator of the backward pass calls both of its products.
            each_us = product_us.get(phase, CALL_US * len(products)) / len(products)
            durations[found] += products_us(subject, products, rate, _format(subject), end, each_us)
            looked_up.append(found)
    chosen = np.concatenate(looked_up)
    changed = with_layer_behind(subject, graph.with_times(durations=durations), layers, chosen)
    changed = with_numpy(subject, with_gradients_added(subject, changed, layers), layers)
    return with_update(subject, changed, layers, end)


def _lookups(subject: Subject, graph: Graph, layers: tuple[Factored, ...], phase: Phase) -> Indices:
    """The tasks that look up rows, or compute the gradient of a table."""
    chosen = tasks_of(graph, layers, kind=product_kind(subject), phase=phase)
    called = shapes(subject, graph, chosen)
    names = (graph.tasks.names[int(graph.tasks.name[task])] for task in chosen.tolist())
    named = [_is_lookup(name, shape) for name, shape in zip(names, called, strict=True)]
    return chosen[np.array(named, np.bool_)]


def _format(subject: Subject) -> str:
    settings = subject.script.settings
    return (settings.autocast if settings is not None else "") or "float32"


def _is_lookup(name: str, shape: OperatorShape | None) -> bool:
    return "mbedding" in name or (shape is not None and "mbedding" in shape.operator)


def _rows_each(subject: Subject, graph: Graph, layer: Factored) -> float:
    """The mean number of rows that one lookup of the layer returns."""
    rows = _rows(subject, graph, _lookups(subject, graph, (layer,), Phase.FORWARD))
    return sum(rows) / max(1, len(rows))


def _rows(subject: Subject, graph: Graph, forward: Indices) -> list[float]:
    """The number of rows that each lookup returns: one for each index, or one for each bag."""
    found: list[float] = []
    for shape in shapes(subject, graph, forward):
        sizes = () if shape is None else shape.inputs
        bags = sizes[2] if len(sizes) > 2 and shape is not None and "bag" in shape.operator else None
        found.append(float(prod(bags if bags is not None else sizes[1])) if len(sizes) > 1 else 0.0)
    return found


WHATIF = EmbeddingFactorization()
