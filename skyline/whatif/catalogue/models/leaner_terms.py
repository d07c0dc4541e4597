"""Changes of a model's products that save time, each separately, with its places in the code."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from skyline.interval import ENDS, End
from skyline.whatif.catalogue.models.cheapest_form import cheapest_form
from skyline.whatif.catalogue.models.product_terms import Block, Op, Place
from skyline.whatif.catalogue.models.saturation import EqualTerms, Node, Price, node_us, saturated

PRODUCTS = (Op.PRODUCT, Op.AFFINE)


class Change(str, Enum):
    """The kind of a change."""

    MERGED = "merged"
    FOLDED = "folded"
    WEIGHTS_FIRST = "weights first"
    WEIGHTS_ADDED = "weights added"
    WITH_SUM = "with sum"
    ORDER = "order"
    SWAPPED_BACK = "swapped back"
    SCALED_LESS = "scaled less"
    ONCE = "once"


@dataclass(frozen=True, slots=True)
class Saving:
    """One change of a block.

    ``gone`` are the terms that it replaces, ``made`` the nodes in their place. ``share`` is the share of the
    work at ``places`` that it saves, in each case: the work of the replaced terms and of other terms recorded
    there.
    """

    block: Block
    change: Change
    gone: tuple[int, ...]
    made: tuple[Node, ...]
    widest: tuple[int, int]
    """Rows and columns of the widest new parameter; (0, 0) without any."""
    share: Mapping[End, float]
    unproven: str = ""
    """The reason why a cheaper form of the block may exist; empty if the form is the cheapest of all."""

    @property
    def places(self) -> tuple[Place, ...]:
        """The places of the replaced terms, in the order of the code."""
        places = [self.block.terms[one].place for one in self.gone]
        return tuple(dict.fromkeys(place for place in places if place is not None))


def may_gain(block: Block) -> bool:
    """True if a rule may apply to the block as it is written; otherwise it has no other form."""
    terms = block.terms
    inputs: set[int] = set()
    seen: set[tuple[Op, tuple[int, ...], tuple[int, ...]]] = set()
    for term in terms:
        below = [terms[one].op for one in term.children]
        same = term.op, term.children, term.numbers
        if term.op is not Op.LEAF and same in seen:
            return True
        seen.add(same)
        if term.op in PRODUCTS:
            left, right = term.children[-2:]
            if terms[right].parameter:
                if left in inputs:
                    return True
                inputs.add(left)
            if any(op in (*PRODUCTS, Op.SCALED) for op in below[-2:]):
                return True
        elif (term.op in (Op.SUM, Op.SCALED) and any(op in PRODUCTS for op in below)) or (
            (term.op, *below) in ((Op.SWAPPED, Op.SWAPPED), (Op.NORMED, Op.CONVOLVED))
        ):
            return True
    return False


def savings(terms: EqualTerms, prices: Mapping[End, Price]) -> tuple[Saving, ...]:
    """The changes from the written terms to their cheapest form, without changes that save nothing."""
    form = cheapest_form(terms, prices["value"])
    gone, made = _difference(terms, form.nodes)
    found: list[Saving] = []
    for group in _groups(terms, gone, made):
        leaving = tuple(one for one in gone if terms.of_term[one] in group)
        coming = {name: made[name] for name in made if name in group}
        share: dict[End, float] = {end: _share(terms, leaving, coming, prices[end]) for end in ENDS}
        if leaving and share["value"] > 0:
            change = _change(terms, leaving, coming)
            widest = _widest(terms, coming)
            nodes = tuple(coming.values())
            found.append(Saving(terms.block, change, leaving, nodes, widest, share, form.unproven))
    return tuple(found)


def saturated_within(blocks: Sequence[Block], most_nodes: float) -> list[EqualTerms]:
    """The equal forms of successive blocks, until their nodes exceed ``most_nodes``."""
    found: list[EqualTerms] = []
    count = 0
    for block in blocks:
        if count > most_nodes:
            break
        terms = saturated(block)
        count += sum(map(len, terms.classes.values()))
        found.append(terms)
    return found


def _difference(terms: EqualTerms, form: Mapping[str, Node]) -> tuple[tuple[int, ...], dict[str, Node]]:
    """The terms of the block that are not in the form, and the nodes that are not in the block."""
    kept: set[str] = set()
    gone: list[int] = []
    for index in sorted(_running(terms.block)):
        name = terms.of_term[index]
        if name not in kept and form.get(name) == terms.node_of(index):
            kept.add(name)
        else:
            gone.append(index)
    made = {name: node for name, node in form.items() if name not in kept and node.op is not Op.LEAF}
    return tuple(gone), made


def _running(block: Block) -> set[int]:
    """The terms on which the needed ones depend, without leaves."""
    found: set[int] = set()
    waiting = list(block.needed)
    while waiting:
        index = waiting.pop()
        if index not in found and block.terms[index].op is not Op.LEAF:
            found.add(index)
            waiting += block.terms[index].children
    return found


def _groups(terms: EqualTerms, gone: Sequence[int], made: Mapping[str, Node]) -> list[set[str]]:
    """Groups of classes, one per change; replaced terms and new nodes connect the classes of a group."""
    below = [(terms.of_term[one], terms.node_of(one).children) for one in gone]
    below += [(name, node.children) for name, node in made.items()]
    concerned = {name for name, _ in below}
    groups: list[set[str]] = []
    for name, children in below:
        joined = {name, *(one for one in children if one in concerned)}
        apart = [group for group in groups if not group & joined]
        groups = [*apart, joined.union(*(group for group in groups if group & joined))]
    return groups


def place_key(place: Place) -> tuple[str, int, Op]:
    """The key of recorded work: its module, or its line and its operator."""
    if place.module:
        return place.module, 0, Op.LEAF
    return "", place.line, Op.PRODUCT if place.op in PRODUCTS else place.op


def _share(terms: EqualTerms, gone: Collection[int], made: Mapping[str, Node], price: Price) -> float:
    """The saved share of the work at the places of the replaced terms."""
    block = terms.block
    keys = {place_key(place) for one in gone if (place := block.terms[one].place) is not None}
    there = [
        index
        for index, term in enumerate(block.terms)
        if term.place is not None and place_key(term.place) in keys
    ]

    def us(index: int) -> float:
        return node_us(terms, terms.of_term[index], terms.node_of(index), price)

    before_us = sum(map(us, there))
    saved_us = sum(map(us, gone)) - sum(node_us(terms, name, node, price) for name, node in made.items())
    return min(1.0, saved_us / before_us) if before_us > 0 else 0.0


def _change(terms: EqualTerms, gone: Sequence[int], made: Mapping[str, Node]) -> Change:
    ops = {node.op for node in made.values()}
    leaving = {terms.block.terms[one].op for one in gone}
    prepared = {node.op for name, node in made.items() if not terms.traits[name].activation}
    if Op.FOLDED in ops:
        return Change.FOLDED
    if Op.JOINED in ops:
        return Change.MERGED
    if Op.PRODUCT in prepared:
        return Change.WEIGHTS_FIRST
    if Op.SUM in ops:
        return Change.WEIGHTS_ADDED
    if Op.AFFINE in ops and Op.SUM in leaving:
        return Change.WITH_SUM
    if Op.SCALED in ops or Op.SCALED in leaving:
        return Change.SCALED_LESS
    if ops & set(PRODUCTS):
        return Change.ORDER
    return Change.SWAPPED_BACK if Op.SWAPPED in leaving and not leaving & set(PRODUCTS) else Change.ONCE


def _widest(terms: EqualTerms, made: Collection[str]) -> tuple[int, int]:
    sizes = [terms.traits[name].size for name in made if not terms.traits[name].activation]
    return max(((one[-2], one[-1]) for one in sizes if len(one) > 1), key=lambda one: one[1], default=(0, 0))
