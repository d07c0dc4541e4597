"""What if the weights of linear layers were products of two thinner ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skyline.graph.graph import Graph
from skyline.interval import ENDS, End
from skyline.lazy_dataclass import dataclass
from skyline.trace.profile import Profile
from skyline.trace.record import Phase
from skyline.whatif.base import Applicability, Grain, Scenario, Semantics, Subject, UsualWhatIf
from skyline.whatif.constant import FLOAT_BYTES, Constant
from skyline.whatif.cost.factored_layers import (
    Factored,
    offered,
    parameters,
    why_not,
    with_weights,
)
from skyline.whatif.cost.factored_linear import halves, linear_layers, products, rows_of, with_products
from skyline.whatif.cost.numpy_weights import with_numpy
from skyline.whatif.cost.thin_layers import by_record, split_parts
from skyline.whatif.cost.weight_update import with_gradients_added, with_update
from skyline.whatif.question import whole_number

_RANKS = tuple(2**power for power in range(1, 13))
_USUAL = Constant.at(
    0.25,
    "an assumption: the rank to offer over the narrower side of the largest weight; a fifth to a half of it stays",
)
_RECURRENT = ("LSTM", "GRU", "RNN")
_TABLES = ("Embedding", "EmbeddingBag")
CAVEAT = "training tolerates fewer free parameters; its loss is not predicted"


@dataclass(frozen=True, slots=True)
class LowRank(UsualWhatIf):
    """Replaces each product by two thinner ones if these are less work, and shrinks the update with the weights.

    Low-rank factors are one of the structures that Thakker and others use for compression (2021, *Doping*,
    MLSys).
    """

    name: str = "low_rank"
    semantics: Semantics = Semantics.MODEL
    excludes: tuple[str, ...] = ("pad_to_multiple",)

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"linear layers as two thinner ones, of rank {value}" if value else "linear layers of low rank"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if linear layers are large enough to gain by it."""
        profile = subject.script
        layers = linear_layers(profile)
        if reason := why_not(subject, layers, _why_none):
            return Applicability.no(reason)
        ranks = [rank for rank in _RANKS if _split(layers, rank)]
        if not ranks:
            return Applicability.no("the weights of its linear layers are too small to be split")
        largest = max(layers, key=lambda one: one.before)
        usual = max(
            (rank for rank in ranks if rank <= _USUAL.value * min(largest.inputs, largest.outputs)),
            default=ranks[0],
        )
        graph = subject.graph_of(Grain.OPERATORS)
        chosen = split_layers(profile, usual)
        if not len(products(subject, graph, chosen)):
            return Applicability.no("no product of a linear layer was recorded")
        return offered(
            subject, chosen, lambda now: _changed(subject, now, chosen, 1.0, "value"), usual, ranks
        )

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Split the products, and shrink the work on whole weights."""
        rank = whole_number(self.name, value)
        layers = split_layers(subject.script, rank)
        if not layers:
            return replace(scenario, reason=f"rank {rank} makes the weight of no linear layer smaller")
        larger = scenario.pass_factor(subject)
        cases = (_changed(subject, scenario.graph, layers, larger, end) for end in ENDS)
        less, whole = parameters(subject, layers)
        kept = _kept_bytes(subject, scenario.graph, layers, larger)
        work = dict.fromkeys((one.module.path for one in layers), split_parts(subject.script, rank))
        replaced = by_record(scenario.graph, products(subject, scenario.graph, layers), work)
        return replace(scenario, replaced={**scenario.replaced, **replaced}).between(
            subject,
            *cases,
            assumptions=(
                (
                    f"split linear layers: {len(layers)} of {len(linear_layers(subject.script))}; "
                    f"{less:,} of {whole:,} parameters are removed"
                ),
                *_staying(subject.script),
                CAVEAT,
            ),
            memory=with_weights(subject, layers, kept),
        )


def split_layers(profile: Profile, rank: int) -> tuple[Factored, ...]:
    """The linear layers whose two weights of this rank have fewer elements than the present one."""
    return _split(linear_layers(profile), rank)


def _split(layers: Sequence[Factored], rank: int) -> tuple[Factored, ...]:
    ranked = (replace(one, rank=rank) for one in layers)
    return tuple(one for one in ranked if one.less > 0)


def _why_none(profile: Profile) -> str:
    if halves(profile):
        return "its linear layers are split already"
    none = "the model trains no linear layer with a weight of its own"
    if any(one.class_name in _TABLES and one.library for one in profile.modules):
        none += "; embedding_factorization is for its embeddings"
    return next(iter(_staying(profile)), none)


def _staying(profile: Profile) -> tuple[str, ...]:
    """The remark about recurrent layers, if there are any."""
    named = sorted(
        {one.class_name for one in profile.modules if one.class_name in _RECURRENT and one.library}
    )
    if not named:
        return ()
    other = "; kronecker is for LSTM" if "LSTM" in named else ""
    return (f"{', '.join(named)} multiplies inside of one operator, which takes whole weights only{other}",)


def _changed(subject: Subject, graph: Graph, layers: tuple[Factored, ...], larger: float, end: End) -> Graph:
    changed = with_products(subject, graph, layers, larger, end)
    changed = with_numpy(subject, with_gradients_added(subject, changed, layers), layers)
    return with_update(subject, changed, layers, end)


def _kept_bytes(subject: Subject, graph: Graph, layers: tuple[Factored, ...], larger: float) -> float:
    """The bytes of the inputs of the second products, which the backward pass needs."""
    forward = products(subject, graph, layers, Phase.FORWARD)
    by_path = {layer.module.path: layer for layer in layers}
    rows = sum(rows_of(subject, graph, forward, by_path))
    return FLOAT_BYTES.value * larger * layers[0].rank * rows / max(1, subject.steps)


WHATIF = LowRank()
