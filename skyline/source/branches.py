"""The steps of a ``forward`` method and which of them need which: independent branches of a model, from its source."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

ANY = "*"
"""The end of the path of a step that stands for each element of a container."""


@dataclass(frozen=True, slots=True)
class Step:
    """A call of submodules, or with no ``members`` what a statement does itself.

    ``members`` are paths below ``self`` (``branch1``, ``towers.0``); ``towers.*`` stands for one step for each element
    of a container, none of which needs another. ``needs`` are the numbers of the steps that it waits for, all earlier.
    """

    lines: tuple[int, int]
    needs: frozenset[int]
    members: tuple[str, ...] = ()


class NotFollowed(Exception):
    """The data of a method cannot be followed; the message says why."""


def steps_of(text: str, line: int, members: Iterable[str]) -> tuple[Step, ...]:
    """The steps of the method that is defined at ``line``; ``members`` are the names of the submodules of its class.

    Names are followed from statement to statement. A compound statement is one step, but for a loop over a container
    whose elements do not hand anything on.

    Raises:
        NotFollowed: there is no such method, or its data cannot be followed.
    """
    for node in _methods(text):
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        if line in {first, node.lineno}:
            return _Reader(node, frozenset(members)).steps()
    raise NotFollowed("its forward is not where it was")


@lru_cache(maxsize=8)
def _methods(text: str) -> tuple[ast.FunctionDef, ...]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise NotFollowed("its file cannot be parsed") from error
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@dataclass(slots=True)
class _Reader:
    """Goes through a method's statements in order; remembers for each name the steps that its value needs."""

    method: ast.FunctionDef
    names_of_members: frozenset[str]
    found: list[Step] = field(default_factory=list[Step])
    writers: dict[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    readers: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    elements: dict[str, str] = field(default_factory=dict[str, str])
    """Names that stand for each element of a container, with its path, and counters of elements, with ``ANY``."""
    waited_for: frozenset[int] = frozenset()
    """Steps that may end the method: all that come after wait for them."""

    @property
    def own(self) -> str:
        """The name of ``self``."""
        arguments = self.method.args.args
        return arguments[0].arg if arguments else ""

    def steps(self) -> tuple[Step, ...]:
        for statement in self.method.body:
            self._statement(statement)
        return tuple(self.found)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                self._assigned(node, targets, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assigned(node, [target], value)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                # In place: whoever reads the value as it was comes first.
                before = frozenset(self.readers.get(name, ()))
                needs = self._value(value) | self.writers.get(name, frozenset()) | before
                self.writers[name] = frozenset({self._add(node, needs)})
            case ast.Return(value=value):
                if value is not None:
                    self._with_own_work(node, value)
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Assert():
                pass
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value])
            ):
                self.writers[name] = self.writers.get(name, frozenset()) | self._with_own_work(node, value)
            case ast.For() if self._is_apart(node):
                self._each(node)
            case ast.If() | ast.For() | ast.While() | ast.With() | ast.Expr() | ast.AugAssign():
                self._as_one(node)
            case _:
                raise NotFollowed(f"line {node.lineno} has a statement that is not followed")

    def _assigned(self, node: ast.stmt, targets: list[ast.expr], value: ast.expr) -> None:
        needs = self._with_own_work(node, value)
        for target in targets:
            for one in ast.walk(target):
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                    self.writers[one.id] = needs
                    self.elements.pop(one.id, None)
                elif isinstance(one, (ast.Attribute, ast.Subscript)) and isinstance(one.ctx, ast.Store):
                    raise NotFollowed(f"line {node.lineno} writes into an object")

    def _with_own_work(self, node: ast.stmt, value: ast.expr) -> frozenset[int]:
        """The steps of an expression, and one for what the statement computes itself, if it does."""
        before = len(self.found)
        needs = self._value(value)
        inside = frozenset(range(before, len(self.found)))
        return frozenset({self._add(node, needs | inside)}) if self._computes(value) else needs

    def _computes(self, value: ast.expr) -> bool:
        """True if there are other operations in it than calls of submodules, names and displays of them."""
        for node in ast.walk(value):
            if isinstance(node, ast.Call) and self._member(node.func) is None and not _only_counts(node):
                return True
            if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare)):
                return True
            if isinstance(node, ast.Subscript) and self._member(node) is None:
                return True
        return False

    def _value(self, node: ast.expr) -> frozenset[int]:
        """The steps that a value needs; adds those of submodules that it calls."""
        match node:
            case ast.Name(id=name):
                return self.writers.get(name, frozenset())
            case ast.Call(func=func):
                arguments = [*node.args, *(one.value for one in node.keywords)]
                path = self._member(func)
                if path is not None:
                    needs = self._all(arguments)
                    number = self._add(node, needs, (path,))
                    self._note_reads(arguments, number)
                    return frozenset({number})
                if isinstance(func, ast.Attribute):
                    if isinstance(func.value, ast.Name) and func.value.id == self.own:
                        raise NotFollowed(f"line {node.lineno} calls a method of its own, {func.attr}")
                    if func.attr.endswith("_") and not func.attr.endswith("__"):
                        raise NotFollowed(f"line {node.lineno} writes in place with {func.attr}")
                    return self._value(func.value) | self._all(arguments) | self._read_before(node)
                return self._all(arguments) | self._read_before(node)
            case (
                ast.ListComp(elt=elt)
                | ast.GeneratorExp(elt=elt)
                | ast.SetComp(elt=elt)
                | ast.DictComp(value=elt)
            ):
                needs = frozenset[int]()
                for generator in node.generators:
                    needs |= self._bind(generator.target, generator.iter) | self._all(generator.ifs)
                return needs | self._value(elt)
            case ast.Lambda() | ast.Await() | ast.Yield() | ast.YieldFrom() | ast.NamedExpr():
                raise NotFollowed(f"line {node.lineno} has an expression that is not followed")
            case _:
                return self._all(one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr))

    def _read_before(self, node: ast.Call) -> frozenset[int]:
        """The steps that read what a call with ``inplace=True`` writes to."""
        if not any(
            one.arg == "inplace" and isinstance(one.value, ast.Constant) and one.value.value is True
            for one in node.keywords
        ):
            return frozenset()
        names = _names(node.args, ast.Load)
        return frozenset(number for name in names for number in self.readers.get(name, ()))

    def _all(self, nodes: Iterable[ast.expr]) -> frozenset[int]:
        return frozenset[int]().union(*(self._value(one) for one in nodes))

    def _note_reads(self, nodes: Iterable[ast.AST], number: int) -> None:
        for name in _names(nodes, ast.Load):
            self.readers.setdefault(name, set()).add(number)

    def _member(self, node: ast.expr) -> str | None:
        """The path of a submodule below ``self``; None for anything else."""
        match node:
            case ast.Name(id=name):
                path = self.elements.get(name)
                return path if path != ANY else None
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == self.own:
                return attribute if attribute in self.names_of_members else None
            case ast.Attribute(value=inner, attr=attribute):
                above = self._member(inner)
                return None if above is None else f"{above}.{attribute}"
            case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as key)):
                above = self._member(inner)
                return None if above is None else f"{above}.{key}"
            case ast.Subscript(value=inner, slice=ast.Name(id=name)) if self.elements.get(name) == ANY:
                above = self._member(inner)
                return None if above is None else f"{above}.{ANY}"
            case ast.Subscript(value=inner):
                # Some elements of a container: all of them are this step's.
                return self._member(inner)
            case _:
                return None

    def _bind(self, target: ast.expr, source: ast.expr) -> frozenset[int]:
        """Give the names of a loop their meaning; the steps that what is looped over needs."""
        needs = frozenset[int]()
        for name, origin in _paired(target, source):
            path = None if origin is None else self._member(origin)
            self.elements.pop(name, None)
            if origin is None:
                self.elements[name] = ANY
            elif path is not None:
                self.elements[name] = f"{path}.{ANY}"
            else:
                self.writers[name] = self._value(origin)
                needs |= self.writers[name]
        return needs

    def _is_apart(self, node: ast.For) -> bool:
        """True if no round of a loop reads what another one wrote, but for lists that grow."""
        if node.orelse or any(isinstance(one, (ast.Break, ast.Continue)) for one in ast.walk(node)):
            return False
        written = set(_names(node.body, ast.Store))
        so_far: set[str] = set()
        for statement in node.body:
            match statement:
                case ast.Expr(
                    value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value])
                ):
                    reads = set(_names([value], ast.Load)) | ({name} & written)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    reads = set(_names([value], ast.Load))
                    if reads & (written - so_far):
                        return False
                    so_far.add(name)
                    continue
                case _:
                    return False
            if reads & (written - so_far):
                return False
        return True

    def _each(self, node: ast.For) -> None:
        needs = self._bind(node.target, node.iter)
        before = len(self.found)
        for statement in node.body:
            self._statement(statement)
        for number in range(before, len(self.found)):
            step = self.found[number]
            self.found[number] = Step(step.lines, step.needs | needs, step.members)

    def _as_one(self, node: ast.stmt) -> None:
        """A compound statement as one step, which waits for all before it where it may end the method."""
        inside = list(ast.walk(node))
        calls = [one for one in inside if isinstance(one, ast.Call)]
        for call in calls:
            match call.func:
                case ast.Attribute(value=ast.Name(id=name), attr=attribute) if (
                    name == self.own and attribute not in self.names_of_members
                ):
                    raise NotFollowed(f"line {call.lineno} calls a method of its own, {attribute}")
                case _:
                    pass
        members: list[str] = []
        for one in inside:
            if (
                isinstance(one, ast.Attribute)
                and isinstance(one.value, ast.Name)
                and one.value.id == self.own
            ):
                if isinstance(one.ctx, ast.Store):
                    raise NotFollowed(f"line {one.lineno} writes into an object")
                if one.attr in self.names_of_members:
                    members.append(one.attr)
        # Whatever it writes to, in place or not, waits for those that read it before.
        names = [name for kind in (ast.Load, ast.Store) for name in _names([node], kind) if name != self.own]
        needs = frozenset[int]().union(*(self.writers.get(name, frozenset[int]()) for name in names))
        needs |= frozenset(number for name in names for number in self.readers.get(name, ()))
        ends = any(isinstance(one, (ast.Return, ast.Raise)) for one in inside)
        if ends:
            needs = frozenset(range(len(self.found)))
        number = self._add(node, needs, tuple(dict.fromkeys(members)))
        if ends:
            self.waited_for |= {number}
        self.writers.update(dict.fromkeys(names, frozenset({number})))

    def _add(self, node: ast.stmt | ast.expr, needs: frozenset[int], members: tuple[str, ...] = ()) -> int:
        lines = (node.lineno, node.end_lineno or node.lineno)
        self.found.append(Step(lines, needs | self.waited_for, members))
        if not members:
            self._note_reads([node], len(self.found) - 1)
        return len(self.found) - 1


def _paired(target: ast.expr, source: ast.expr) -> Iterator[tuple[str, ast.expr | None]]:
    """The names of a loop, each with what it runs through; None for one that counts."""
    match target, source:
        case ast.Name(id=name), ast.Call(func=ast.Name(id="range")):
            yield name, None
        case ast.Tuple(elts=[ast.Name(id=counter), rest]), ast.Call(
            func=ast.Name(id="enumerate"), args=[inner, *_]
        ):
            yield counter, None
            yield from _paired(rest, inner)
        case ast.Tuple(elts=targets), ast.Call(func=ast.Name(id="zip"), args=sources) if len(targets) == len(
            sources
        ):
            for one, inner in zip(targets, sources, strict=True):
                yield from _paired(one, inner)
        case _, ast.Call(func=ast.Attribute(value=inner, attr="values" | "children")):
            yield from _paired(target, inner)
        case ast.Tuple(elts=[ast.Name(id=key), rest]), ast.Call(
            func=ast.Attribute(value=inner, attr="items")
        ):
            yield key, None
            yield from _paired(rest, inner)
        case _:
            for name in _names([target], ast.Store):
                yield name, source


def _names(nodes: Iterable[ast.AST], context: type[ast.expr_context]) -> Iterator[str]:
    for node in nodes:
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, context):
                yield one.id


def _only_counts(node: ast.Call) -> bool:
    """True for calls that compute nothing on tensors."""
    return isinstance(node.func, ast.Name) and node.func.id in (
        "enumerate",
        "zip",
        "range",
        "len",
        "list",
        "tuple",
    )
