"""All equal forms of the terms of a block, by equality saturation, and the cheapest of them.

Equality saturation over the graphs of networks follows Tensat (Yang and others, 2021, *Equality Saturation
for Tensor Graph Superoptimization*, MLSys). Tensat chooses the cheapest form by an integer program, which is
in ``cheapest_form.py``; the search here needs no solver.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from math import inf
from typing import Any

from skyline.whatif.catalogue.models.product_terms import Block, Op, size_of
from skyline.whatif.catalogue.models.term_costs import Traits
from skyline.whatif.constant import Constant

LIBRARY = "egglog"
_MOST_ROUNDS = Constant.at(
    12, "eight layers of one input need eight rounds; more of them are not merged into one"
)
_MOST_NODES = Constant.at(
    3_000,
    "eight layers of one input make 2,300; the search in so many takes half a second on a core of a Xeon",
)
_MOST_SHARED = Constant.at(32, "values of one block that several others read; the search tries each of them")

_PARTS = {
    Op.LEAF: (1, 0),
    Op.PRODUCT: (0, 2),
    Op.AFFINE: (0, 3),
    Op.SUM: (0, 2),
    Op.SCALED: (1, 1),
    Op.SWAPPED: (2, 1),
    Op.JOINED: (0, 2),
    Op.COLUMNS: (2, 1),
    Op.CONVOLVED: (1, 1),
    Op.NORMED: (1, 1),
    Op.FOLDED: (2, 1),
}
"""The count of numbers and the count of children of each term."""
_FACTS = """
(sort Term)
(constructor Named (i64 M) Term)
(function last (M) i64 :merge (min old new))
(function width (M) i64 :merge (min old new))
(function kind (M) i64 :merge (min old new))
(relation single (M))
(relation vector (M))
(relation matrix (M))
"""
"""Facts that are known of parameters only: ``last`` is the number of the last of the joined parameters,
``width`` the number of columns. ``kind`` tells trained from frozen parameters, which are not joined with each
other."""

RULES = """
; Several products with one input.
(rule ((= p (Product x a)) (= q (Product x b)) (single b)
       (= i (last a)) (= j (last b)) (< i j)
       (= m (width a)) (= n (width b)) (= t (kind a)) (= t (kind b)))
      ((let w (Joined a b)) (set (last w) j) (set (width w) (+ m n)) (set (kind w) t)
       (let y (Product x w)) (union p (Columns 0 m y)) (union q (Columns m n y))))
(rule ((= p (Affine c x a)) (= q (Affine d x b)) (single b) (vector c) (vector d)
       (= i (last a)) (= j (last b)) (< i j)
       (= m (width a)) (= n (width b)) (= t (kind a)) (= t (kind b)))
      ((let w (Joined a b)) (set (last w) j) (set (width w) (+ m n)) (set (kind w) t)
       (let e (Joined c d)) (vector e)
       (let y (Affine e x w)) (union p (Columns 0 m y)) (union q (Columns m n y))))
(rewrite (Columns i m (Columns j n y)) (Columns (+ i j) m y))

; Dimensions that are exchanged twice.
(rewrite (Swapped i j (Swapped i j x)) x)

; Sums of products.
(rewrite (Sum x y) (Sum y x))
(rewrite (Sum (Product x a) (Product x b)) (Product x (Sum a b)))
(rewrite (Sum (Product a x) (Product b x)) (Product (Sum a b) x))
(rule ((= p (Sum (Affine c x a) (Affine d x b))) (vector c) (vector d))
      ((let e (Sum c d)) (vector e) (union p (Affine e x (Sum a b)))))
(rewrite (Sum (Affine c x a) (Product x b)) (Affine c x (Sum a b)) :when ((vector c)))
(rewrite (Sum (Product x a) c) (Affine c x a) :when ((vector c)))
(rewrite (Sum (Product x a) c) (Affine c x a) :when ((matrix c) (matrix x) (matrix a)))

; Products of products.
(rewrite (Product (Product x a) b) (Product x (Product a b)))
(rewrite (Product x (Product a b)) (Product (Product x a) b))
(rewrite (Affine d (Product x a) b) (Affine d x (Product a b)))
(rewrite (Affine d x (Product a b)) (Affine d (Product x a) b))
(rule ((= p (Product (Affine c x a) b)) (vector c) (matrix b))
      ((let e (Product c b)) (vector e) (union p (Affine e x (Product a b)))))
(rule ((= p (Affine d (Affine c x a) b)) (vector c) (vector d) (matrix b))
      ((let e (Affine d c b)) (vector e) (union p (Affine e x (Product a b)))))

; Plain numbers.
(rewrite (Product (Scaled s x) a) (Scaled s (Product x a)))
(rewrite (Product x (Scaled s a)) (Scaled s (Product x a)))
(rewrite (Scaled s (Product x a)) (Product (Scaled s x) a))
(rewrite (Scaled s (Product x a)) (Product x (Scaled s a)))
(rewrite (Affine c (Scaled s x) a) (Affine c x (Scaled s a)))
(rule ((= p (Scaled s (Affine c x a))) (vector c))
      ((let e (Scaled s c)) (vector e) (union p (Affine e x (Scaled s a)))))

; Evaluation alone: the terms of a training have no normalization.
(rewrite (Normed n (Convolved k x)) (Folded k n x))
"""

_OPS = {op.value: op for op in Op}


@dataclass(frozen=True, slots=True)
class Node:
    """A term whose children are classes of equal terms."""

    op: Op
    numbers: tuple[int, ...]
    children: tuple[str, ...]


@dataclass(frozen=True)
class EqualTerms:
    """Classes of equal nodes; ``of_term`` is the class of each term of the block."""

    block: Block
    classes: Mapping[str, tuple[Node, ...]]
    of_term: tuple[str, ...]
    complete: bool = True
    """True if no further rule applied before the limit of nodes or rounds."""

    def node_of(self, index: int) -> Node:
        """A term of the block as a node."""
        term = self.block.terms[index]
        return Node(term.op, term.numbers, tuple(self.of_term[one] for one in term.children))

    @cached_property
    def traits(self) -> dict[str, Traits]:
        """The traits of each class whose size follows from its terms."""
        found = {
            self.of_term[index]: Traits(
                term.size, not term.parameter, term.trained or not term.parameter, True
            )
            for index, term in enumerate(self.block.terms)
            if term.op is Op.LEAF
        }
        changed = True
        while changed:
            changed = False
            for name, nodes in self.classes.items():
                if name in found:
                    continue
                made = next((one for node in nodes if (one := _traits(node, found)) is not None), None)
                if made is not None:
                    found[name] = made
                    changed = True
        return found


def _traits(node: Node, known: Mapping[str, Traits]) -> Traits | None:
    children = [known[one] for one in node.children if one in known]
    if len(children) < len(node.children) or not children:
        return None
    size = size_of(node.op, node.numbers, [one.size for one in children])
    if size is None:
        return None
    return Traits(size, any(one.activation for one in children), any(one.trained for one in children))


def is_installed() -> bool:
    """True if the library can be imported."""
    try:
        import_module(LIBRARY)
    except ImportError:
        return False
    return True


def saturated(block: Block) -> EqualTerms:
    """All terms that the rules derive from a block, within the limits."""
    bindings: Any = import_module(f"{LIBRARY}.bindings")
    graph = bindings.EGraph()

    def run(program: str) -> list[Any]:
        return graph.run_program(*graph.parse_program(program))

    run(_sorts() + _FACTS + RULES + _program(block))
    complete = False
    for _ in range(int(_MOST_ROUNDS.value)):
        [ran] = run("(run 1)")
        if not ran.report.updated:
            complete = True
            break
        [sizes] = run("(print-size)")
        if sum(count for name, count in sizes.sizes if name in _OPS) > _MOST_NODES.value:
            break
    return _read(block, json.loads(graph.serialize([]).to_json())["nodes"], complete)


def _sorts() -> str:
    """Declarations of the terms in egglog's language."""
    lines = ["(sort M)"]
    for op, (numbers, children) in _PARTS.items():
        parts = " ".join((*("i64",) * numbers, *("M",) * children))
        lines.append(f"(constructor {op.value} ({parts}) M)")
    return "\n".join(lines)


def _program(block: Block) -> str:
    """The terms of a block in egglog's language, with the facts known about them."""
    lines: list[str] = []
    for index, term in enumerate(block.terms):
        given = " ".join((*map(str, term.numbers), *(f"$t{one}" for one in term.children)))
        lines += [f"(let $t{index} ({term.op.value} {given}))", f"(Named {index} $t{index})"]
        if term.op is Op.LEAF and term.parameter and len(term.size) == 2:
            lines += [
                f"(single $t{index})",
                f"(set (last $t{index}) {index})",
                f"(set (width $t{index}) {term.size[1]})",
                f"(set (kind $t{index}) {int(term.trained or block.evaluating)})",
            ]
        if term.op is Op.LEAF and term.parameter and len(term.size) == 1:
            lines.append(f"(vector $t{index})")
        if len(term.size) == 2:
            lines.append(f"(matrix $t{index})")
    return "\n".join(lines)


def _read(block: Block, nodes: Mapping[str, Any], complete: bool) -> EqualTerms:
    classes: dict[str, dict[Node, None]] = {}
    of_term: dict[int, str] = {}
    for row in nodes.values():
        children = [nodes[one] for one in row["children"]]
        numbers = tuple(int(one["op"]) for one in children if one["eclass"].startswith("i64"))
        below = tuple(one["eclass"] for one in children if one["eclass"].startswith("M-"))
        if row["op"] == "Named":
            of_term[numbers[0]] = below[0]
        elif row["op"] in _OPS and row["eclass"].startswith("M-"):
            classes.setdefault(row["eclass"], {})[Node(_OPS[row["op"]], numbers, below)] = None
    return EqualTerms(
        block,
        {name: tuple(each) for name, each in classes.items()},
        tuple(of_term[index] for index in range(len(block.terms))),
        complete,
    )


# The cheapest form.

Price = Callable[[Op, Sequence[int], Sequence[Traits], Traits], float]


def node_us(terms: EqualTerms, name: str, node: Node, price: Price) -> float:
    """The price of a node in µs; infinite if its size does not fit its class."""
    traits = terms.traits
    if name not in traits or any(one not in traits for one in node.children):
        return inf
    children = [traits[one] for one in node.children]
    if node.op is not Op.LEAF and size_of(node.op, node.numbers, [one.size for one in children]) is None:
        return inf
    return price(node.op, node.numbers, children, traits[name])


def priced(terms: EqualTerms, price: Price) -> dict[str, list[tuple[float, Node]]]:
    """The nodes of each class with their prices, without nodes whose size does not fit."""
    return {
        name: [(us, node) for node in nodes if (us := node_us(terms, name, node, price)) < inf]
        for name, nodes in terms.classes.items()
    }


def cheapest(terms: EqualTerms, price: Price) -> dict[str, Node]:
    """The nodes of a cheap form of all needed terms, by class; a value with several readers counts once.

    Each class takes its cheapest node, first with the full price of everything below it. Then shared values
    are treated as already paid for, one after the other, if this makes the whole form cheaper. The search
    misses forms in which two shared values are worth their price only together.
    """
    roots = tuple(dict.fromkeys(terms.of_term[one] for one in sorted(terms.block.needed)))
    search = _Search(roots, priced(terms, price))
    best = search.form(roots, frozenset())
    paid: frozenset[str] = frozenset()
    while True:
        tried = [paid | {one} for one in search.shared if one not in paid]
        tried += [paid - {one} for one in paid]
        forms = [(search.form(roots, each), each) for each in tried]
        found = min(forms, key=lambda one: one[0].us, default=None)
        if found is None or found[0].us >= best.us - 1e-9:
            return best.nodes
        best, paid = found


@dataclass(frozen=True, slots=True)
class _Form:
    us: float
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])


class _Search:
    def __init__(self, roots: Iterable[str], nodes: dict[str, list[tuple[float, Node]]]) -> None:
        self._roots = roots
        self._priced = nodes

    @cached_property
    def shared(self) -> tuple[str, ...]:
        """The classes with several readers, in decreasing order of their number; other code counts as a reader, too."""
        readers: dict[str, set[str]] = {name: {""} for name in self._roots}
        for name, priced in self._priced.items():
            for _, node in priced:
                for child in node.children:
                    readers.setdefault(child, set()).add(name)
        several = [
            name
            for name, each in readers.items()
            if len(each) > 1 and any(node.op not in (Op.LEAF, Op.JOINED) for _, node in self._priced[name])
        ]
        return tuple(sorted(several, key=lambda name: (-len(readers[name]), name))[: int(_MOST_SHARED.value)])

    def form(self, roots: Iterable[str], paid: Collection[str]) -> _Form:
        """The form of the cheapest nodes if classes in ``paid`` cost their readers nothing, and its whole cost."""
        costs = self._costs(paid)
        chosen: dict[str, Node] = {}
        total = 0.0
        waiting = list(roots)
        while waiting:
            name = waiting.pop()
            if name in chosen:
                continue
            if name not in costs:
                return _Form(inf)
            _, us, node = costs[name]
            chosen[name] = node
            total += us
            waiting += node.children
        return _Form(total, chosen) if is_acyclic(chosen) else _Form(inf)

    def _costs(self, paid: Collection[str]) -> dict[str, tuple[float, float, Node]]:
        """The cheapest node of each class: its cost with everything below it, its own cost, and the node."""
        costs: dict[str, tuple[float, float, Node]] = {}
        changed = True
        while changed:
            changed = False
            for name, priced in self._priced.items():
                for us, node in priced:
                    below = 0.0
                    for child in set(node.children):
                        below += 0.0 if child in paid else costs[child][0] if child in costs else inf
                    if us + below < (costs[name][0] if name in costs else inf) - 1e-12:
                        costs[name] = us + below, us, node
                        changed = True
        return costs


def is_acyclic(chosen: Mapping[str, Node]) -> bool:
    """True if no class of a form is computed from itself."""
    left = {name: set(node.children) for name, node in chosen.items()}
    while left:
        ready = [name for name, below in left.items() if not below & left.keys()]
        if not ready:
            return False
        for name in ready:
            del left[name]
    return True
