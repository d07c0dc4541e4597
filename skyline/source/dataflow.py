"""The values of a function's tensors and their inputs, in stretches of code without a branch."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from skyline.source.forms import (
    grown_in,
    is_apart,
    number_in,
    paired,
    place_line,
    whole_number_in,
    writes_in_place,
)
from skyline.source.text import Function, dotted, names_in

ANY = "*"
"""In a path: each element of a container, in a loop or comprehension with independent iterations."""
SOME = "?"
"""In a path: unknown elements of a container."""


class Made(str, Enum):
    """The operation that makes a value."""

    GIVEN = "given"
    """An unknown operation: an argument, a value of another stretch, the result of any other call."""
    ATTRIBUTE = "attribute"
    """Read from ``self``; ``name`` is the rest of the path."""
    CALLED = "called"
    """An attribute of ``self`` called with one value."""
    APPLIED = "applied"
    """An attribute of ``self`` called in another way: with more values or keywords, repeatedly, conditionally."""
    PRODUCT = "product"
    """A matrix product of two values."""
    LINEAR = "linear"
    """``functional.linear`` of an input, a weight, and a bias if there are three."""
    SUM = "sum"
    TIMES = "times"
    """An elementwise product of two values, or of one value and the number in ``name``."""
    SWAPPED = "swapped"
    """Two exchanged dimensions, given in ``dimensions``."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a stretch. ``arguments`` are the indices of earlier values; ``line`` is where it is made.

    ``computes`` marks operations other than calls of attributes; ``overwrites`` are values changed in place.
    """

    made: Made
    name: str = ""
    arguments: tuple[int, ...] = ()
    dimensions: tuple[int, ...] = ()
    line: int = 0
    computes: bool = False
    overwrites: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement whose values begin at ``first``; for a ``whole`` one they only record all that it reads.

    A loop with independent iterations is followed by the statements of its body, which are read once.
    """

    node: ast.stmt
    first: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Stretch:
    """The values of code without branches, in the order in which they are made.

    ``needed`` are the indices of values that other code reads, so they must exist unchanged. ``unread`` says
    why the values do not describe all of the data flow, if they do not; ``own`` is the name of ``self``.
    """

    values: tuple[Value, ...]
    needed: frozenset[int]
    statements: tuple[Statement, ...] = ()
    unread: str = ""
    own: str = ""


def stretches(function: Function) -> tuple[Stretch, ...]:
    """Every stretch of a function: first its body, then each block of a branch or a loop in it."""
    reader = _Reader(function)
    return tuple(
        Stretch(tuple(one.values), frozenset(one.needed), tuple(one.statements), one.unread, reader.own)
        for one in reader.finished
    )


def _stored_attributes(function: Function) -> frozenset[str]:
    """Attributes that the function itself changes, so that each read of them may give another value."""
    attributes = (node for node in ast.walk(function) if isinstance(node, ast.Attribute))
    return frozenset(dotted(node) for node in attributes if not isinstance(node.ctx, ast.Load))


@dataclass(slots=True)
class _Open:
    """A stretch that is being read. ``known`` are the indices of attributes and outer values read already."""

    values: list[Value] = field(default_factory=list[Value])
    needed: set[int] = field(default_factory=set[int])
    known: dict[object, int] = field(default_factory=dict[object, int])
    statements: list[Statement] = field(default_factory=list[Statement])
    unread: str = ""

    def add(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1


_Place = tuple[_Open, int]
_Names = dict[str, "_Place | None"]
"""The value of each name of the function; None if it is unknown."""

_Swapped = tuple[int, ...]
_PRODUCTS = ("matmul", "mm", "bmm")
_SWAPS = ("transpose", "swapaxes", "swapdims")
_LAST_TWO = (-2, -1)
_BOTH = (0, 1)
_OF_TENSORS = frozenset(
    ("T", "mT", "shape", "data", "grad", *_PRODUCTS, *_SWAPS, "t", "add", "mul", "multiply")
)
_MODULES = ("torch", "F", "functional", "torch.nn.functional", "nn.functional")


class _Reader:
    """Reads blocks of statements into stretches."""

    def __init__(self, function: Function) -> None:
        self.finished: list[_Open] = []
        given = function.args
        names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        self.own = names[0] if names else ""
        self._stored = _stored_attributes(function)
        self._names: _Names = {}
        self._elements: dict[str, str] = {}
        """Names for each element of a container, with its path, and counters of elements, with ``ANY``."""
        self._open = _Open()
        self._once = True
        """True if an expression runs exactly once per stretch: not in a comprehension or a condition."""
        self._whole = False
        """True if the statement is read as a whole, so that unknown parts of it do no harm."""
        self.block(function.body, dict.fromkeys(names[1:]))

    def block(self, statements: list[ast.stmt], names: _Names) -> None:
        """Reads these statements into a stretch, and each block in them into another; all start with ``names``."""
        outer = self._open, self._names
        self._open, self._names = _Open(), dict(names)
        self.finished.append(self._open)
        for statement in statements:
            self._statement(statement)
        self._open, self._names = outer

    def _statement(self, statement: ast.stmt) -> None:
        apart = isinstance(statement, ast.For) and is_apart(statement)
        places = isinstance(statement, ast.AugAssign) and not isinstance(statement.target, ast.Name)
        self._whole = not apart and not grown_in(statement) and (places or isinstance(statement, _WHOLE))
        self._open.statements.append(Statement(statement, len(self._open.values), self._whole))
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                self._assign(name, self._value(value))
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(
                targets
            ) == len(values) and all(isinstance(one, ast.Name) for one in targets):
                made = tuple(map(self._value, values))
                for name, place in zip(names_in(targets), made, strict=True):
                    self._assign(name, place)
            case ast.Assign(targets=targets, value=value):
                made = self._maybe((value,))
                if any(isinstance(one, _PLACES) for target in targets for one in ast.walk(target)):
                    self._lose(statement, "writes into an object")
                self._need_all(statement)
                self._unknown(statement, made)
            case ast.Expr(value=ast.Call(args=[item])) if (name := grown_in(statement)) in self._names:
                items = self._named(name), self._read(item)
                self._names[name] = self._open, self._open.add(Value(Made.GIVEN, name, items))
            case ast.Pass() | ast.Return(value=None) | ast.Expr(value=ast.Constant()):
                pass
            case ast.Return(value=ast.expr() as value) | ast.Expr(value=value):
                self._read(value)
            case ast.AugAssign(target=target, value=value):
                # A tensor is changed in place, and all its views with it.
                parts = self._read(value), self._read(target)
                written = Value(Made.GIVEN, "", parts, computes=True, overwrites=parts[1:])
                self._forget(dict.fromkeys(_bound(target), self._open.add(written)))
            case (
                ast.If() | ast.For() | ast.AsyncFor() | ast.While() | ast.With() | ast.AsyncWith() | ast.Try()
            ):
                self._compound(statement, apart=apart)
            case _:
                if not isinstance(statement, ast.Assert):
                    self._lose(statement, "has a statement that is not followed")
                self._need_all(statement)
                self._unknown(statement)

    def _compound(self, statement: ast.stmt, *, apart: bool) -> None:
        if not apart:
            self._lose(statement, "has a statement that is not followed")
            for part in ast.iter_child_nodes(statement):
                if isinstance(part, ast.expr | ast.withitem):
                    self._read(part if isinstance(part, ast.expr) else part.context_expr)
        names = [one for one in dict.fromkeys(names_in([statement])) if one in self._names]
        for name in names:
            # A branch that is not taken leaves the old value, and a loop reads it in its first iteration.
            self._keep(name)
        before, whole = dict(self._names), -1
        if not apart:
            whole = self._open.add(Value(Made.GIVEN, arguments=tuple(map(self._named, names))))
            self._unknown(statement, (whole,))
        inside = before if isinstance(statement, ast.If) else {**before, **_bound(statement)}
        bodies = [getattr(statement, name, None) for name in ("body", "orelse", "finalbody")]
        for block in (*bodies, *(one.body for one in getattr(statement, "handlers", ()))):
            if block:
                self.block(block, inside)
        if any(writes_in_place(node) for node in ast.walk(statement)):
            self._forget({} if apart else dict.fromkeys(names, whole))
        if apart and isinstance(statement, ast.For):
            once, self._once = self._once, False
            self._bind(statement.target, statement.iter)
            for one in statement.body:
                self._statement(one)
            self._once = once

    def _assign(self, name: str, value: int) -> None:
        if not self._once:
            value = self._open.add(Value(Made.GIVEN, name, (value,)))
        self._elements.pop(name, None)
        self._names[name] = self._open, value

    def _unknown(self, node: ast.AST, of: tuple[int, ...] = ()) -> None:
        """Binds the names of a statement to unknown values, made from the values ``of``."""
        for name in _bound(node):
            self._keep(name)
            self._assign(name, self._open.add(Value(Made.GIVEN, name, of)))

    def _keep(self, name: str) -> None:
        """Marks the present value of a name as needed by later code."""
        place = self._names.get(name)
        if place is not None:
            place[0].needed.add(place[1])

    def _forget(self, written: Mapping[str, int] = {}) -> None:
        """Records that every name and attribute may change here; ``written`` has the known new values."""
        for name, place in self._names.items():
            self._keep(name)
            if name in written:
                self._names[name] = self._open, self._open.add(Value(Made.GIVEN, name, (written[name],)))
            elif place is not None:
                of = (place[1],) if place[0] is self._open else ()
                self._names[name] = self._open, self._open.add(Value(Made.GIVEN, name, of))
        self._open.known.clear()

    def _lose(self, node: ast.stmt | ast.expr, what: str) -> None:
        if not self._whole:
            self._open.unread = self._open.unread or f"line {node.lineno} {what}"

    # Expressions.

    def _read(self, node: ast.expr) -> int:
        """Reads an expression for an operation that is not followed."""
        value = self._value(node)
        self._open.needed.add(value)
        return value

    def _maybe(self, nodes: Iterable[ast.expr]) -> tuple[int, ...]:
        """Reads expressions that may run any number of times."""
        before, self._once = self._once, False
        found = tuple(map(self._read, nodes))
        self._once = before
        return found

    def _need_all(self, node: ast.AST) -> None:
        """Marks every name that a node reads as needed, in unknown order."""
        for name in names_in([node], ast.Load):
            if name in self._names:
                self._open.needed.add(self._named(name))
        if any(writes_in_place(one) for one in ast.walk(node)):
            self._forget()

    def _value(self, node: ast.expr) -> int:
        match node:
            case ast.Name():
                return self._named(node.id, node.lineno)
            case ast.Attribute() if (name := self._member(node)) and _is_exact(name):
                return self._attribute(name)
            case ast.Attribute(value=value, attr="T" | "mT" as name):
                return self._made(Made.SWAPPED, node, (value,), swapped=_BOTH if name == "T" else _LAST_TWO)
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                return self._made(Made.PRODUCT, node, (left, right))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._made(Made.SUM, node, (left, right))
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self._times(node, left, right)
            case ast.BinOp(left=left, op=ast.Div(), right=right) if text := number_in(right):
                return self._made(Made.TIMES, node, (left,), name=f"1 / ({text})")
            case ast.Call():
                return self._call(node)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                return self._comprehension(node)
            case _:
                return self._other(node)

    def _named(self, name: str, line: int = 0) -> int:
        place = self._names.get(name)
        if place is None and name in self._names:
            found = self._open.add(Value(Made.GIVEN, name, line=line))
            self._names[name] = self._open, found
            return found
        if place is not None and place[0] is self._open:
            return place[1]
        key = name if place is None else (id(place[0]), place[1])
        self._keep(name)
        if key not in self._open.known:
            self._open.known[key] = self._open.add(Value(Made.GIVEN, name, line=line))
        return self._open.known[key]

    def _attribute(self, name: str) -> int:
        if f"{self.own}.{name}" in self._stored:
            return self._open.add(Value(Made.GIVEN, name))
        key = "self", name
        if key not in self._open.known:
            self._open.known[key] = self._open.add(Value(Made.ATTRIBUTE, name))
        return self._open.known[key]

    def _made(
        self, made: Made, node: ast.expr, given: Iterable[ast.expr], name: str = "", swapped: _Swapped = ()
    ) -> int:
        places = tuple(map(self._value, given))
        computes = made is not Made.CALLED
        if not self._once:
            self._open.needed.update(places)
            made, name, swapped = (Made.GIVEN, "", ()) if computes else (Made.APPLIED, name, ())
        return self._open.add(Value(made, name, places, swapped, place_line(node), computes))

    def _times(self, node: ast.expr, left: ast.expr, right: ast.expr) -> int:
        for number, other in ((left, right), (right, left)):
            if text := number_in(number):
                return self._made(Made.TIMES, node, (other,), name=text)
        return self._made(Made.TIMES, node, (left, right))

    def _call(self, node: ast.Call) -> int:
        given, function = tuple(node.args), node.func
        plain = not node.keywords and not any(isinstance(one, ast.Starred) for one in given)
        path = self._member(function)
        if writes_in_place(node):
            return self._other(node)
        if path:
            known = _is_exact(path) and f"{self.own}.{path}" not in self._stored
            if known and plain and len(given) == 1:
                return self._made(Made.CALLED, node, given, name=path)
            places = self._arguments(node, function=not known)
            return self._open.add(Value(Made.APPLIED, path, places, line=place_line(node)))
        if plain and isinstance(function, ast.Attribute):
            method, owner = function.attr, dotted(function.value)
            if owner in _MODULES and owner not in self._names:
                return self._operator(node, method, given)
            return self._operator(node, method, (function.value, *given))
        return self._other(node)

    def _arguments(self, node: ast.Call, *, function: bool) -> tuple[int, ...]:
        """Reads all arguments of a call, and with ``function`` the parts of the called expression."""
        given = (*node.args, *(each.value for each in node.keywords))
        arguments = (one.value if isinstance(one, ast.Starred) else one for one in given)
        return (*(self._parts(node.func) if function else ()), *map(self._read, arguments))

    def _operator(self, node: ast.Call, name: str, given: tuple[ast.expr, ...]) -> int:
        if name in _PRODUCTS and len(given) == 2:
            return self._made(Made.PRODUCT, node, given)
        if name == "linear" and len(given) in (2, 3):
            return self._made(Made.LINEAR, node, given)
        if name == "add" and len(given) == 2:
            return self._made(Made.SUM, node, given)
        if name in ("mul", "multiply") and len(given) == 2:
            return self._times(node, *given)
        if name == "t" and len(given) == 1:
            return self._made(Made.SWAPPED, node, given, swapped=_BOTH)
        if name in _SWAPS and len(given) == 3:
            dimensions = tuple(sorted(one for one in map(whole_number_in, given[1:]) if one is not None))
            if len(dimensions) == 2:
                return self._made(Made.SWAPPED, node, given[:1], swapped=dimensions)
        return self._other(node)

    def _other(self, node: ast.expr) -> int:
        """The result of an unknown expression; the values that it reads are followed."""
        computes = isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Subscript)
        writes = ""
        match node:
            case ast.Call(func=function):
                front = dotted(function).partition(".")[0]
                parts = self._arguments(node, function=not front or front in self._names)
                computes = front not in _COUNTING
                writes = getattr(function, "attr", "a call") if writes_in_place(node) else ""
            case ast.BinOp() | ast.UnaryOp() | ast.Subscript() | ast.Attribute() | ast.Tuple() | ast.List():
                parts = self._parts(node)
            case ast.Lambda() | ast.Await() | ast.Yield() | ast.YieldFrom() | ast.NamedExpr():
                self._lose(node, "has an expression that is not followed")
                self._need_all(node)
                self._unknown(node)
                parts = ()
            case _:
                parts = self._maybe(one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr))
        overwritten = parts if writes else ()
        made = self._open.add(Value(Made.GIVEN, "", parts, (), place_line(node), computes, overwritten))
        if writes:
            if writes.endswith("_"):
                self._lose(node, f"writes in place with {writes}")
            self._forget(dict.fromkeys(names_in([node], ast.Load), made))
        return made

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp) -> int:
        names, elements, once = dict(self._names), dict(self._elements), self._once
        self._once = False
        parts: list[int] = []
        for generator in node.generators:
            parts += self._bind(generator.target, generator.iter)
            parts += map(self._read, generator.ifs)
        results = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        parts += map(self._read, results)
        for name in set(names_in([one.target for one in node.generators], ast.Store)):
            del self._names[name]
            self._names |= {name: names[name]} if name in names else {}
        self._elements, self._once = elements, once
        return self._open.add(Value(Made.GIVEN, "", tuple(parts), line=place_line(node)))

    def _bind(self, target: ast.expr, source: ast.expr) -> list[int]:
        """Binds the names of a loop; returns the values that it goes over."""
        found: list[int] = []
        for name, origin in paired(target, source):
            path = "" if origin is None else self._member(origin)
            of = () if origin is None or path else (self._read(origin),)
            found += of
            self._assign(name, self._open.add(Value(Made.GIVEN, name, of)))
            if origin is None or path:
                self._elements[name] = f"{path}.{ANY}" if path else ANY
        return found

    def _parts(self, node: ast.expr) -> tuple[int, ...]:
        return tuple(self._read(one) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr))

    def _member(self, node: ast.expr) -> str:
        """``a.b.0`` for ``self.a.b[0]``; empty for anything else, and for attributes that every tensor has."""
        match node:
            case ast.Name(id=name):
                path = self._elements.get(name, ANY)
                return "" if path == ANY else path
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == self.own:
                return attribute
            case ast.Attribute(value=inner, attr=attribute):
                front = self._member(inner)
                return f"{front}.{attribute}" if front and attribute not in _OF_TENSORS else ""
            case ast.Subscript(value=inner, slice=index):
                front = self._member(inner)
                if isinstance(index, ast.Name) and self._elements.get(index.id) == ANY:
                    return f"{front}.{ANY}" if front else ""
                key = index.value if isinstance(index, ast.Constant) else None
                named = isinstance(key, str) or (type(key) is int and key >= 0)
                return f"{front}.{key if named else SOME}" if front else ""
            case _:
                return ""


_PLACES = ast.Attribute, ast.Subscript
_WHOLE = ast.If, ast.For, ast.While, ast.With, ast.Expr
"""Statements that are read as a whole."""


def _bound(node: ast.AST) -> dict[str, None]:
    return dict.fromkeys(names_in([node], ast.Store, ast.Del))


def _is_exact(path: str) -> bool:
    return not {ANY, SOME} & set(path.split("."))


_COUNTING = ("enumerate", "zip", "range", "len", "list", "tuple")
"""Calls that compute nothing on tensors."""
