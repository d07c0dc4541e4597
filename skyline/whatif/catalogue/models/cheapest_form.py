"""The cheapest of all equal forms of a block, by an integer program, or by a search if it cannot be solved.

The program follows Tensat (Yang and others, 2021, *Equality Saturation for Tensor Graph Superoptimization*,
MLSys): each node is chosen or not, a chosen node needs one node of each child's class, and the classes of a
cycle have an order, without which a class could be computed from itself. A value that several nodes read
costs once. HiGHS solves it through SciPy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from math import inf
from typing import Any

from skyline.units import plural
from skyline.whatif.catalogue.models.saturation import EqualTerms, Node, Price, cheapest, is_acyclic, priced
from skyline.whatif.constant import Constant

_MOST_NODES = Constant.at(
    500,
    "six layers of one input make 450, and take a second on a core of an EPYC; seven take more than twenty",
)
_MOST_SECONDS = Constant.at(2.0, "an answer is waited for")
_SOLVED = 0
WITHOUT_SOLVER = "SciPy is not installed: pip install 'skyline-profiler[graph]'"

Priced = Mapping[str, list[tuple[float, Node]]]


@dataclass(frozen=True, slots=True)
class CheapestForm:
    """The chosen node of each class of the form. ``unproven`` is the reason why a cheaper form may exist, or empty."""

    nodes: Mapping[str, Node]
    unproven: str = ""


def cheapest_form(terms: EqualTerms, price: Price) -> CheapestForm:
    """The cheapest form of all needed terms; the form of the search if the program was not solved."""
    found = cheapest(terms, price)
    every = priced(terms, price)
    costs = {(name, node): us for name, each in every.items() for us, node in each}
    limit_us = sum(costs[one] for one in found.items())
    roots = tuple(dict.fromkeys(terms.of_term[one] for one in sorted(terms.block.needed)))
    left = _reachable(roots, every, limit_us)
    count = sum(map(len, left.values()))
    if not found or count == len(left):
        return CheapestForm(found)
    if count > _MOST_NODES.value:
        return CheapestForm(found, f"{plural(count, 'node')}, and the program takes {_MOST_NODES.value:g}")
    try:
        optimize: Any = import_module("scipy.optimize")
        sparse: Any = import_module("scipy.sparse")
        import_module("scipy.sparse.csgraph")
    except ImportError:
        return CheapestForm(found, WITHOUT_SOLVER)
    program = _Program(roots, left, _cycles(left, sparse))
    rows, columns, values = zip(*program.entries, strict=True)
    size = len(program.prices)
    solution: Any = optimize.milp(
        program.prices,
        integrality=program.integrality,
        bounds=optimize.Bounds(0.0, program.most),
        constraints=optimize.LinearConstraint(
            sparse.csr_array((values, (rows, columns)), shape=(len(program.least), size)), program.least, inf
        ),
        options={"time_limit": _MOST_SECONDS.value, "mip_rel_gap": 0.0},
    )
    if solution.status != _SOLVED:
        return CheapestForm(found, f"the program was not solved in {_MOST_SECONDS.value:g} s")
    chosen = program.form(solution.x)
    # If two forms cost the same, the form of the search is closer to the code.
    cheaper = sum(costs[one] for one in chosen.items()) < limit_us - 1e-6 * max(1.0, limit_us)
    return CheapestForm(chosen if cheaper and is_acyclic(chosen) else found)


def _reachable(roots: Iterable[str], every: Priced, limit_us: float) -> dict[str, list[tuple[float, Node]]]:
    """The nodes that a form of at most ``limit_us`` may have, by class."""
    found: dict[str, list[tuple[float, Node]]] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = [
                (us, node) for us, node in every[name] if us <= limit_us and name not in node.children
            ]
            waiting += [child for _, node in found[name] for child in node.children]
    return found


def _cycles(nodes: Priced, sparse: Any) -> dict[str, tuple[int, int]]:
    """The number and the size of each class's strongly connected group: all its classes may need one another."""
    places = {name: place for place, name in enumerate(nodes)}
    edges = [
        (places[name], places[child])
        for name, each in nodes.items()
        for _, node in each
        for child in node.children
    ]
    above, below = zip(*edges, strict=True)
    matrix = sparse.csr_array(([1.0] * len(edges), (above, below)), shape=(len(places), len(places)))
    groups: list[int] = sparse.csgraph.connected_components(matrix, connection="strong")[1].tolist()
    sizes = Counter(groups)
    return {name: (group, sizes[group]) for name, group in zip(places, groups, strict=True)}


class _Program:
    """Linear constraints over the nodes, 0 or 1 each, and over the position of each class of a cycle in an order.

    ``least`` is the lower bound of each row; no row has an upper bound.
    """

    def __init__(self, roots: Iterable[str], nodes: Priced, cycles: Mapping[str, tuple[int, int]]) -> None:
        self._members: dict[str, list[int]] = {}
        self._nodes: list[tuple[str, Node]] = []
        self.prices: list[float] = []
        for name, each in nodes.items():
            self._members[name] = [*range(len(self.prices), len(self.prices) + len(each))]
            self._nodes += [(name, node) for _, node in each]
            self.prices += [us for us, _ in each]
        ordered = [name for name in nodes if cycles[name][1] > 1]
        places = {name: len(self.prices) + place for place, name in enumerate(ordered)}
        self.most = [1.0] * len(self.prices) + [cycles[name][1] - 1.0 for name in ordered]
        self.integrality = [1] * len(self.prices) + [0] * len(places)
        self.prices += [0.0] * len(places)
        self.entries: list[tuple[int, int, float]] = []
        self.least: list[float] = []
        for root in roots:
            self._add([(one, 1.0) for one in self._members[root]], 1.0)
        for name, members in self._members.items():
            # At most one node of a class: a second one would cost without use.
            self._add([(one, -1.0) for one in members], -1.0)
            readers: dict[str, list[int]] = {}
            for one in members:
                for child in dict.fromkeys(self._nodes[one][1].children):
                    readers.setdefault(child, []).append(one)
            for child, reading in readers.items():
                self._add(
                    [(one, 1.0) for one in self._members[child]] + [(one, -1.0) for one in reading], 0.0
                )
                group, size = cycles[name]
                if cycles[child][0] == group:
                    # Positions range from 0 to size - 1, so the row also holds if no reading node is chosen.
                    behind = [(one, -float(size)) for one in reading]
                    self._add([(places[name], 1.0), (places[child], -1.0), *behind], 1.0 - size)

    def form(self, solution: Any) -> dict[str, Node]:
        """The chosen node of each class."""
        return {name: node for (name, node), one in zip(self._nodes, solution, strict=False) if one > 0.5}

    def _add(self, terms: Iterable[tuple[int, float]], least: float) -> None:
        self.entries += [(len(self.least), column, value) for column, value in terms]
        self.least.append(least)
