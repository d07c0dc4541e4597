"""The values of a function's tensors: how each is made from others, in stretches of code without a branch."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from enum import Enum

from skyline.source.text import dotted

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Made(str, Enum):
    """The way in which a value is made."""

    GIVEN = "given"
    """In a way that is not followed: an argument, a value of another stretch, the result of any other call."""
    ATTRIBUTE = "attribute"
    """Read from ``self``; ``name`` is what follows."""
    CALLED = "called"
    """An attribute of ``self`` called with one value."""
    PRODUCT = "product"
    """A matrix product of two values."""
    LINEAR = "linear"
    """``functional.linear``: of an input, a weight, and a bias if there are three."""
    SUM = "sum"
    TIMES = "times"
    """Elementwise, of two values; or of one and the number in ``name``."""
    SWAPPED = "swapped"
    """With two dimensions exchanged; ``dimensions`` says which."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a stretch. ``arguments`` are earlier values, by their places; ``line`` is where it is made."""

    made: Made
    name: str = ""
    arguments: tuple[int, ...] = ()
    dimensions: tuple[int, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class Stretch:
    """The values of code that runs from its begin to its end, in the order in which they are made.

    ``needed`` are the places of values that something else reads: they have to exist as they are.
    """

    values: tuple[Value, ...]
    needed: frozenset[int]


def stretches(function: Function) -> tuple[Stretch, ...]:
    """Every stretch of a function: its body, and each block in it of a branch or a loop."""
    reader = _Reader(_stored_attributes(function))
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    reader.block(function.body, dict.fromkeys(names[1:]))
    return tuple(
        Stretch(tuple(one.values), frozenset(one.needed)) for one in reader.finished if len(one.values) > 1
    )


def function_at(tree: ast.Module, line: int) -> Function | None:
    """The function whose definition begins at a line, or one of whose decorators does."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            first = min((one.lineno for one in node.decorator_list), default=node.lineno)
            if first <= line <= node.lineno:
                return node
    return None


def _stored_attributes(function: Function) -> frozenset[str]:
    """Attributes that the function itself changes: each read of them may give another value."""
    stores = (
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
    )
    return frozenset(dotted(node) for node in stores)


@dataclass(slots=True)
class _Open:
    """A stretch that is being read. ``known`` are the places of what is read again: attributes and outer values."""

    values: list[Value] = field(default_factory=list[Value])
    needed: set[int] = field(default_factory=set[int])
    known: dict[object, int] = field(default_factory=dict[object, int])

    def add(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1


_Place = tuple[_Open, int]
_Names = dict[str, "_Place | None"]
"""The value of each name of the function; None for one that is not followed."""

_PRODUCTS = ("matmul", "mm", "bmm")
_SWAPS = ("transpose", "swapaxes", "swapdims")
_LAST_TWO = (-2, -1)
_BOTH = (0, 1)
_MODULES = ("torch", "F", "functional", "torch.nn.functional", "nn.functional")
_CONSTANT_MODULES = ("math", "np", "numpy")


class _Reader:
    """Reads blocks of statements into stretches."""

    def __init__(self, stored: frozenset[str]) -> None:
        self.finished: list[_Open] = []
        self._stored = stored
        self._names: _Names = {}
        self._open = _Open()

    def block(self, statements: list[ast.stmt], names: _Names) -> None:
        """A stretch for these statements, and one for each block in them; names that are in force go in."""
        outer = self._open, self._names
        self._open, self._names = _Open(), dict(names)
        self.finished.append(self._open)
        for statement in statements:
            self._statement(statement)
        self._open, self._names = outer

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._names[name] = self._open, self._value(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._names[name] = self._open, self._value(value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(
                targets
            ) == len(values) and all(isinstance(one, ast.Name) for one in targets):
                made = [self._value(one) for one in values]
                for target, place in zip(targets, made, strict=True):
                    assert isinstance(target, ast.Name)
                    self._names[target.id] = self._open, place
            case ast.Return(value=ast.expr() as value) | ast.Expr(value=value):
                self._read(value)
            case ast.AugAssign():
                # A tensor is changed in place, and with it all views of it.
                self._read(statement.value)
                self._read(statement.target)
                self._forget()
            case (
                ast.If() | ast.For() | ast.AsyncFor() | ast.While() | ast.With() | ast.AsyncWith() | ast.Try()
            ):
                self._compound(statement)
            case _:
                self._need_all(statement)
                self._unknown(statement)

    def _compound(self, statement: ast.stmt) -> None:
        for part in ast.iter_child_nodes(statement):
            if isinstance(part, ast.expr):
                self._read(part)
            elif isinstance(part, ast.withitem):
                self._read(part.context_expr)
        for one in ast.walk(statement):
            # A branch that is not taken leaves the old value, and a loop reads it in its first turn.
            if isinstance(one, ast.Name):
                self._keep(one.id)
        branches = isinstance(statement, ast.If)
        before = dict(self._names)
        self._unknown(statement)
        inside = before if branches else dict(self._names)
        for name in ("body", "orelse", "finalbody"):
            if block := getattr(statement, name, None):
                self.block(block, inside)
        for handler in getattr(statement, "handlers", ()):
            self.block(handler.body, inside)
        if any(_writes_in_place(node) for node in ast.walk(statement)):
            self._forget()

    def _unknown(self, node: ast.AST) -> None:
        """Names that a statement binds in a way that is not followed."""
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load):
                self._keep(one.id)
                self._names[one.id] = None

    def _keep(self, name: str) -> None:
        """The present value of a name may be read later."""
        place = self._names.get(name)
        if place is not None:
            place[0].needed.add(place[1])

    def _forget(self) -> None:
        """From here on every name may have another value, and every attribute."""
        for name in self._names:
            self._keep(name)
        self._names = dict.fromkeys(self._names)
        self._open.known.clear()

    # Expressions.

    def _read(self, node: ast.expr) -> None:
        """Something that is not followed reads this expression."""
        self._open.needed.add(self._value(node))

    def _need_all(self, node: ast.AST) -> None:
        """It reads every name in a node, in an order that is not known."""
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and one.id in self._names:
                self._open.needed.add(self._named(one))
        if any(_writes_in_place(one) for one in ast.walk(node)):
            self._forget()

    def _value(self, node: ast.expr) -> int:
        match node:
            case ast.Name():
                return self._named(node)
            case ast.Attribute() if name := _of_self(node):
                return self._attribute(name)
            case ast.Attribute(value=value, attr="T"):
                return self._made(Made.SWAPPED, node, (value,), dimensions=_BOTH)
            case ast.Attribute(value=value, attr="mT"):
                return self._made(Made.SWAPPED, node, (value,), dimensions=_LAST_TWO)
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                return self._made(Made.PRODUCT, node, (left, right))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._made(Made.SUM, node, (left, right))
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self._times(node, left, right)
            case ast.BinOp(left=left, op=ast.Div(), right=right) if number := _number(right):
                return self._made(Made.TIMES, node, (left,), name=f"1 / ({number})")
            case ast.Call():
                return self._call(node)
            case _:
                return self._other(node)

    def _named(self, node: ast.Name) -> int:
        place = self._names.get(node.id)
        if place is None and node.id in self._names:
            found = self._open.add(Value(Made.GIVEN, node.id, line=node.lineno))
            self._names[node.id] = self._open, found
            return found
        if place is not None and place[0] is self._open:
            return place[1]
        key = node.id if place is None else (id(place[0]), place[1])
        self._keep(node.id)
        if key not in self._open.known:
            self._open.known[key] = self._open.add(Value(Made.GIVEN, node.id, line=node.lineno))
        return self._open.known[key]

    def _attribute(self, name: str) -> int:
        if f"self.{name}" in self._stored:
            return self._open.add(Value(Made.GIVEN, name))
        key = "self", name
        if key not in self._open.known:
            self._open.known[key] = self._open.add(Value(Made.ATTRIBUTE, name))
        return self._open.known[key]

    def _made(
        self,
        made: Made,
        node: ast.expr,
        arguments: tuple[ast.expr, ...],
        *,
        name: str = "",
        dimensions: tuple[int, ...] = (),
    ) -> int:
        places = tuple(self._value(one) for one in arguments)
        return self._open.add(Value(made, name, places, dimensions, _line(node)))

    def _times(self, node: ast.expr, left: ast.expr, right: ast.expr) -> int:
        for number, other in ((left, right), (right, left)):
            if text := _number(number):
                return self._made(Made.TIMES, node, (other,), name=text)
        return self._made(Made.TIMES, node, (left, right))

    def _call(self, node: ast.Call) -> int:
        given, function = tuple(node.args), node.func
        plain = not node.keywords and not any(isinstance(one, ast.Starred) for one in given)
        attribute = _of_self(function)
        if _writes_in_place(node) or not plain:
            return self._other(node)
        if attribute and len(given) == 1 and f"self.{attribute}" not in self._stored:
            return self._made(Made.CALLED, node, given, name=attribute)
        if isinstance(function, ast.Attribute):
            method, owner = function.attr, dotted(function.value)
            if owner in _MODULES and owner not in self._names:
                return self._operator(node, method, given)
            if not attribute:
                return self._operator(node, method, (function.value, *given))
        return self._other(node)

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
            return self._made(Made.SWAPPED, node, given, dimensions=_BOTH)
        if name in _SWAPS and len(given) == 3:
            dimensions = tuple(sorted(one for one in map(_whole, given[1:]) if one is not None))
            if len(dimensions) == 2:
                return self._made(Made.SWAPPED, node, given[:1], dimensions=dimensions)
        return self._other(node)

    def _other(self, node: ast.expr) -> int:
        """The result of an expression that is not followed; what it reads is."""
        if isinstance(node, ast.Call):
            front = dotted(node.func).partition(".")[0]
            if not front or front in self._names:
                self._parts(node.func)
            for one in (*node.args, *(each.value for each in node.keywords)):
                self._read(one.value if isinstance(one, ast.Starred) else one)
            if _writes_in_place(node):
                self._forget()
        elif isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Subscript, ast.Attribute, ast.Tuple, ast.List)):
            self._parts(node)
        else:
            self._need_all(node)
            self._unknown(node)
        return self._open.add(Value(Made.GIVEN, line=_line(node)))

    def _parts(self, node: ast.expr) -> None:
        for one in ast.iter_child_nodes(node):
            if isinstance(one, ast.expr):
                self._read(one)


def _line(node: ast.expr) -> int:
    """The line to which the interpreter attributes the call: that of a method's name, where it stands apart."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.end_lineno or node.lineno
    return node.lineno


def _of_self(node: ast.expr) -> str:
    """``a.b.0`` for ``self.a.b[0]``; empty for anything else, and for what every tensor has."""
    if isinstance(node, ast.Subscript):
        front, index = _of_self(node.value), _whole(node.slice)
        return f"{front}.{index}" if front and index is not None and index >= 0 else ""
    if not isinstance(node, ast.Attribute):
        return ""
    if isinstance(node.value, ast.Name):
        return node.attr if node.value.id == "self" else ""
    front = _of_self(node.value)
    return f"{front}.{node.attr}" if front and node.attr not in _OF_TENSORS else ""


_OF_TENSORS = frozenset(
    ("T", "mT", "shape", "data", "grad", *_PRODUCTS, *_SWAPS, "t", "add", "mul", "multiply")
)


def _whole(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(node: ast.expr) -> str:
    """The text of an expression of plain numbers; empty for anything else."""
    for one in ast.walk(node):
        match one:
            case ast.Constant(value=bool()) | ast.Constant(value=str()) | ast.Constant(value=None):
                return ""
            case ast.Constant() | ast.BinOp() | ast.UnaryOp() | ast.operator() | ast.unaryop() | ast.Load():
                pass
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module)), keywords=[]) if (
                module in _CONSTANT_MODULES
            ):
                pass
            case ast.Attribute(value=ast.Name(id=module)) if module in _CONSTANT_MODULES:
                pass
            case ast.Name(id=name) if name in _CONSTANT_MODULES:
                pass
            case _:
                return ""
    return ast.unparse(node)


def _writes_in_place(node: ast.AST) -> bool:
    """True for calls that may change a tensor: ``add_``, ``out=``, ``inplace=True``; and for stores into one."""
    match node:
        case ast.AugAssign():
            return True
        case ast.Subscript(ctx=ast.Store()):
            return True
        case ast.Call(func=ast.Attribute(attr=name)) if name.endswith("_") and not name.endswith("__"):
            return True
        case ast.Call(keywords=keywords):
            return any(one.arg in ("out", "inplace") for one in keywords)
        case _:
            return False
