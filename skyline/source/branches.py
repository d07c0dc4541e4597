"""The steps of a ``forward`` method and their dependencies: independent branches of a model, from its source."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from skyline.source.dataflow import ANY, SOME, Made, Stretch, stretches
from skyline.source.forms import function_at, parsed
from skyline.source.text import dotted


@dataclass(frozen=True, slots=True)
class Step:
    """A call of submodules, or without ``members`` the operations of a statement itself.

    ``members`` are paths below ``self`` (``branch1``, ``towers.0``); ``towers.*`` stands for one independent
    step per element of a container. ``needs`` are the numbers of the earlier steps that it waits for.
    """

    lines: tuple[int, int]
    needs: frozenset[int]
    members: tuple[str, ...] = ()

    @property
    def several(self) -> bool:
        """True if it stands for one step per element of a container."""
        return any(ANY in path.split(".") for path in self.members)


class NotFollowed(Exception):
    """The data of a method cannot be followed; the message says why."""


def steps_of(text: str, line: int, members: Iterable[str]) -> tuple[Step, ...]:
    """The steps of the method that is defined at ``line``; ``members`` are the names of the submodules of its class.

    A compound statement is one step, except a loop over a container whose iterations are independent.

    Raises:
        NotFollowed: there is no such method, or its data cannot be followed.
    """
    if (tree := parsed(text)) is None:
        raise NotFollowed("its file cannot be parsed")
    function = function_at(tree, line)
    if function is None:
        raise NotFollowed("its forward method is no longer at its recorded line")
    body = stretches(function)[0]
    if body.unread:
        raise NotFollowed(body.unread)
    steps = _Steps(body, frozenset(members))
    ends = [*(one.first for one in body.statements[1:]), len(body.values)]
    for statement, end in zip(body.statements, ends, strict=True):
        (steps.whole if statement.whole else steps.followed)(statement.node, range(statement.first, end))
    return tuple(steps.found)


_CALLS = Made.CALLED, Made.APPLIED


class _Steps:
    """Collects the steps that make the values of a method's body."""

    def __init__(self, body: Stretch, members: frozenset[str]) -> None:
        self.found: list[Step] = []
        self._values, self._own, self._members = body.values, body.own, members
        self._made: list[frozenset[int]] = []
        """The steps that readers of a value wait for, by value."""
        self._readers: list[set[int]] = [set() for _ in body.values]
        self._waited_for: frozenset[int] = frozenset()
        """Steps that may end the method: all later steps wait for them."""

    def followed(self, node: ast.stmt, values: range) -> None:
        """Adds a step for each call of a submodule in a statement, and one for its other operations."""
        before, work = len(self.found), frozenset[int]()
        computing: set[int] = set()
        for value in values:
            one = self._values[value]
            needs = self._made_by(one.arguments) | self._read_by(one.overwrites)
            front, _, rest = one.name.partition(".")
            if one.made in _CALLS:
                if front in self._members:
                    path = ".".join(part for part in one.name.split(".") if part != SOME)
                    needs = frozenset({self._add(node, needs, (path,), one.arguments)})
                elif not rest:
                    raise NotFollowed(f"line {one.line} calls a method of its own, {front}")
                else:
                    computing.add(value)
            elif one.computes and front not in self._members:
                computing.add(value)
            if value in computing:
                work |= needs
            self._made.append(needs)
        if computing:
            reads = [argument for value in values for argument in self._values[value].arguments]
            inside = range(before, len(self.found))
            work = work.union(inside).difference(*(self.found[one].needs for one in inside))
            own = frozenset({self._add(node, work, (), reads)})
            for value in values:
                one = self._values[value]
                if value in computing or one.made in _CALLS:
                    # The calls of the statement may use values that it computes.
                    self._made[value] = own
                elif one.made is Made.GIVEN:
                    self._made[value] = self._made_by(one.arguments)

    def whole(self, node: ast.stmt, values: range) -> None:
        """Adds one step for a statement that may change all values that it reads, and may end the method."""
        inside = list(ast.walk(node))
        called = {id(one.func) for one in inside if isinstance(one, ast.Call)}
        members: list[str] = []
        for one in inside:
            if not (isinstance(one, ast.Attribute) and dotted(one.value) == self._own):
                continue
            if isinstance(one.ctx, ast.Store):
                raise NotFollowed(f"line {one.lineno} writes into an object")
            if one.attr in self._members:
                members.append(one.attr)
            elif id(one) in called:
                raise NotFollowed(f"line {one.lineno} calls a method of its own, {one.attr}")
        if not values:
            return
        reads = {argument for value in values for argument in self._values[value].arguments}
        reads = {one for one in reads if one < values.start}
        ends = any(isinstance(one, (ast.Return, ast.Raise)) for one in inside)
        needs = self._made_by(reads) | self._read_by(reads)
        if ends:
            needs = frozenset(range(len(self.found)))
        step = frozenset({self._add(node, needs, tuple(dict.fromkeys(members)), reads)})
        self._made += [step for _ in values]
        for one in reads:
            self._made[one] = step
        if ends:
            self._waited_for |= step

    def _made_by(self, values: Iterable[int]) -> frozenset[int]:
        return frozenset[int]().union(*(self._made[one] for one in values))

    def _read_by(self, values: Iterable[int]) -> frozenset[int]:
        return frozenset[int]().union(*(self._readers[one] for one in values))

    def _add(
        self, node: ast.stmt, needs: frozenset[int], members: tuple[str, ...], reads: Iterable[int]
    ) -> int:
        number = len(self.found)
        lines = node.lineno, node.end_lineno or node.lineno
        self.found.append(Step(lines, needs | self._waited_for, members))
        for one in reads:
            self._note(one, number)
        return number

    def _note(self, value: int, step: int) -> None:
        """Records that a step reads a value, and the values of which it is a view."""
        self._readers[value].add(step)
        if self._values[value].made is Made.GIVEN:
            for one in self._values[value].arguments:
                if step not in self._readers[one]:
                    self._note(one, step)
