"""What if the products of the model were computed in their cheapest equal form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import WORK, WorkClass
from skyline.interval import ENDS, End
from skyline.trace.record import Phase
from skyline.units import format_ms, plural
from skyline.whatif.base import Applicability, Scenario, Semantics, Subject, UsualWhatIf
from skyline.whatif.catalogue.models.leaner_terms import (
    PRODUCTS,
    Change,
    Saving,
    may_gain,
    place_key,
    saturated_within,
    savings,
)
from skyline.whatif.catalogue.models.product_terms import Block, Op
from skyline.whatif.catalogue.models.saturation import EqualTerms, Price, is_installed
from skyline.whatif.catalogue.models.term_costs import TermCosts
from skyline.whatif.catalogue.models.written_terms import blocks
from skyline.whatif.constant import Constant
from skyline.whatif.cost.factored_layers import product_kind, product_rate
from skyline.whatif.number_formats import gpu
from skyline.whatif.subject import NEEDS_PROFILE

_REACHED = Constant(
    1.0,
    0.25,
    1.3,
    "an assumption: power of the ratio of the modelled times; no rewritten script had a valid measurement",
)
_WORTH_ASKING = Constant.at(0.001, "the share of the iteration below which a change is not worth a name")
_MOST_NODES = Constant.at(
    10_000, "two seconds on one core of an Intel Xeon, where every block reaches its own limit"
)
_NAMED = Constant.at(6, "the length of a list that is read at once")
_NOTHING = "nothing is found: "
_WITHOUT_LIBRARY = (
    "equal forms are searched for with the library egglog, which is not installed here: "
    "pip install 'skyline-profiler[graph]' (Python 3.11 or later)"
)
_NAMES = {
    Op.SUM: re.compile(r"add", re.IGNORECASE),
    Op.SCALED: re.compile(r"mul|div", re.IGNORECASE),
    Op.SWAPPED: re.compile(r"transpose|permute|numpy_T|::t$|^T(Backward|$)", re.IGNORECASE),
}
"""Patterns for the names of the operators of a term, in both passes."""
_COMPILED = {
    Change.MERGED: "torch.compile does this for inference with frozen weights only",
    Change.FOLDED: "torch.compile does this for inference with frozen weights only",
    Change.WEIGHTS_FIRST: "torch.compile does not do this",
    Change.WEIGHTS_ADDED: "torch.compile does not do this",
    Change.WITH_SUM: "torch.compile does this already, where it does not fuse the sum with what follows",
    Change.ORDER: "torch.compile does not do this",
    Change.SWAPPED_BACK: "torch.compile does this already",
    Change.SCALED_LESS: "torch.compile fuses the factor with its neighbours, and does not move it",
    Change.ONCE: "torch.compile does this already",
}
"""As of PyTorch 2.13: ``torch/_inductor/fx_passes`` with the default settings of ``torch/_inductor/config.py``."""


@dataclass(frozen=True, slots=True)
class BetterGraph(UsualWhatIf):
    """Scales the work at each place that an equal form of the model's products removes or reduces."""

    name: str = "better_graph"
    words: str = "products of the model in their cheapest equal form"
    semantics: Semantics = Semantics.NUMERICS
    excludes: tuple[str, ...] = ("kronecker", "low_rank")

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if another form of the recorded products saves time."""
        if subject.profile is None:
            return Applicability.no(NEEDS_PROFILE)
        if not subject.profile.modules:
            return Applicability.no("the layers of the model are not known; profile it again")
        if subject.on_gpu and gpu(subject) is None:
            return Applicability.no("the figures of the GPU are not known: see skyline gpus")
        every = blocks(subject.profile)
        if not every:
            return Applicability.no(
                f"{_NOTHING}the code of the model has no products whose sizes were recorded"
            )
        count = sum(term.op in PRODUCTS for block in every for term in block.terms)
        if not any(map(may_gain, every)):
            return Applicability.no(
                f"{_NOTHING}{plural(count, 'product')} in the code, none with another form"
            )
        if not is_installed():
            return Applicability.no(_WITHOUT_LIBRARY)
        graph = subject.graph_of(self.grain)
        saved_ms = sum(_saved_ms(subject, graph, one) for one in _savings(subject, graph, every))
        if saved_ms < _WORTH_ASKING.value * subject.iteration_ms.value:
            return Applicability.no(
                f"{_NOTHING}no other form of the {plural(count, 'product')} in the code saves time"
            )
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the tasks at the places of each change by the share that remains."""
        recorded = subject.graph_of(self.grain)
        found = _savings(subject, recorded, blocks(subject.script))
        found.sort(key=lambda one: -_saved_ms(subject, recorded, one))
        if not found:
            return scenario
        likely = _changed(subject, scenario.graph, found, "value", _REACHED.value)
        least = _changed(subject, scenario.graph, found, "low", _REACHED.high)
        most = _changed(subject, scenario.graph, found, "high", _REACHED.low)
        named = int(_NAMED.value)
        told = [_told(subject, recorded, one) for one in found[:named]]
        if len(found) > named:
            told.append(f"{plural(len(found) - named, 'further change')} of this kind")
        reasons = dict.fromkeys(one.unproven for one in found if one.unproven)
        told += [f"Found by a search, so that a cheaper form may exist ({reason})" for reason in reasons]
        return scenario.between(subject, likely, least, most, assumptions=tuple(told))


def _savings(subject: Subject, graph: Graph, every: Sequence[Block]) -> list[Saving]:
    """All changes of all blocks that save time."""
    rate = 0.0 if subject.on_gpu else product_rate(subject, graph)[0].value
    found: list[Saving] = []
    for terms in saturated_within([block for block in every if may_gain(block)], _MOST_NODES.value):
        found += savings(terms, _prices(subject, graph, terms, rate))
    # At some places no work was recorded, such as views in a predicted profile.
    return [one for one in found if _saved_ms(subject, graph, one) > 0]


def _prices(subject: Subject, graph: Graph, terms: EqualTerms, rate: float) -> dict[End, Price]:
    block = terms.block
    recorded_us = {
        index: float(graph.durations[_tasks(subject, graph, block, [index])].sum())
        for index, term in enumerate(block.terms)
        if term.op in (Op.CONVOLVED, Op.NORMED)
    }
    return {
        end: TermCosts(subject, rate, block.number_format, block.evaluating, recorded_us, end).us
        for end in ENDS
    }


def _tasks(subject: Subject, graph: Graph, block: Block, terms: Sequence[int]) -> Indices:
    """The recorded tasks of some terms of a block, in all modules that the block stands for."""
    tasks, structure = graph.tasks, graph.structure
    phases = (Phase.OTHER,) if block.evaluating else (Phase.FORWARD, Phase.BACKWARD)
    work = select(graph, kind=product_kind(subject), phase=phases)
    modules = {path: code for code, path in enumerate(structure.modules)}
    found: list[Indices] = []
    for index in terms:
        place = block.terms[index].place
        if place is None:
            continue
        paths = [f"{path}.{place.module}" if place.module else path for path in block.paths]
        chosen = work[np.isin(tasks.module[work], [modules[path] for path in paths if path in modules])]
        if not place.module:
            lines = [
                code
                for code, line in enumerate(structure.lines)
                if (line.file, line.line) == (place.file, place.line)
            ]
            chosen = chosen[np.isin(tasks.line[chosen], lines)]
            pattern = _NAMES.get(place.op)
            chosen = chosen[tasks.named(pattern.search)[chosen]] if pattern is not None else chosen
        if place.op in PRODUCTS:
            chosen = chosen[tasks.work[chosen] == WORK[WorkClass.MATMUL]]
        found.append(chosen)
    return np.unique(np.concatenate(found)).astype(np.int64) if found else np.empty(0, np.int64)


def _changed(subject: Subject, graph: Graph, found: Sequence[Saving], end: End, reached: float) -> Graph:
    """The graph with all changes: in the best case each saves the most of its three shares, in the worst the least."""
    durations = graph.durations.copy()
    for saving in found:
        share = {
            "value": saving.share["value"],
            "low": max(saving.share.values()),
            "high": min(saving.share.values()),
        }
        left = (1 - max(0.0, share[end])) ** reached
        durations[_tasks(subject, graph, saving.block, _there(saving))] *= left
    return graph.with_times(durations=durations)


def _there(saving: Saving) -> list[int]:
    """The terms that are recorded at the places of the removed terms."""
    keys = {place_key(place) for place in saving.places}
    return [
        index
        for index, term in enumerate(saving.block.terms)
        if term.place is not None and place_key(term.place) in keys
    ]


def _saved_ms(subject: Subject, graph: Graph, saving: Saving) -> float:
    """The likely gain per iteration in ms, from the times of the recorded tasks alone."""
    tasks = _tasks(subject, graph, saving.block, _there(saving))
    return float(graph.durations[tasks].sum()) / 1e3 / max(1, subject.steps) * saving.share["value"]


# Words.


def _told(subject: Subject, graph: Graph, saving: Saving) -> str:
    """A change as one sentence, with its lines, its gain, and whether torch.compile does it."""
    tasks = _tasks(subject, graph, saving.block, _there(saving))
    took_ms = float(graph.durations[tasks].sum()) / 1e3 / max(1, subject.steps)
    saved = f"saves {format_ms(saving.share['value'] * took_ms)} of {format_ms(took_ms)}"
    count = len(saving.block.paths)
    where = saving.block.paths[0] if count == 1 else f"each of {count} modules like {saving.block.paths[0]}"
    return f"{_lines(saving)}, {where}: {_words(saving)}; {saved}; {_COMPILED[saving.change]}"


def _lines(saving: Saving) -> str:
    places = saving.places
    file = next((PurePath(place.file).name for place in places if place.file), "")
    lines = sorted({place.line for place in places if place.line})
    if not lines:
        return file or "in the code"
    adjoining = lines[-1] - lines[0] == len(lines) - 1 and len(lines) > 2
    told = f"{lines[0]}-{lines[-1]}" if adjoining else ", ".join(map(str, lines))
    return f"{file}:{told}"


def _words(saving: Saving) -> str:
    terms = [saving.block.terms[one] for one in saving.gone]
    products = [term for term in terms if term.op in PRODUCTS]
    names = ", ".join(
        dict.fromkeys(term.place.module for term in products if term.place and term.place.module)
    )
    rows, columns = saving.widest
    match saving.change:
        case Change.MERGED:
            what = (
                f"{len(products)} linear layers of one input ({names})"
                if names
                else f"{len(products)} products of one input"
            )
            return f"{what} as one with a weight of {rows} x {columns}"
        case Change.FOLDED:
            return (
                "batch normalization in the evaluation, folded into the weights of the convolution before it"
            )
        case Change.WEIGHTS_FIRST:
            what = f" ({names})" if names else ""
            return f"the weights of products that follow one another{what} multiplied first, in each pass"
        case Change.WEIGHTS_ADDED:
            return "the sum of two products with a common factor as one product with the sum of the others"
        case Change.WITH_SUM:
            return "a product and the sum behind it as one operator (torch.addmm or functional.linear)"
        case Change.ORDER:
            return "the same products in an order with less arithmetic"
        case Change.SWAPPED_BACK:
            return "two exchanges of dimensions that cancel each other"
        case Change.SCALED_LESS:
            numbers = ", ".join(
                dict.fromkeys(saving.block.numbers[term.numbers[0]] for term in terms if term.op is Op.SCALED)
            )
            return (
                f"the factor {numbers} applied to a smaller tensor, such as the weight"
                if numbers
                else "a factor applied to a smaller tensor"
            )
        case Change.ONCE:
            return "a value that is computed twice"


WHATIF = BetterGraph()
