"""The forms of functions, loops and expressions whose values can be followed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from skyline.errors import UsageError
from skyline.source.text import Function, SourceText, names_in, parse

_CONSTANT_MODULES = ("math", "np", "numpy")


@lru_cache(maxsize=8)
def parsed(text: str) -> ast.Module | None:
    """The tree of a file. None if it is not Python."""
    try:
        return parse(SourceText("", text))
    except UsageError:
        return None


def function_at(tree: ast.Module, line: int) -> Function | None:
    """The function whose definition, or one of whose decorators, begins at a line."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            first = min((one.lineno for one in node.decorator_list), default=node.lineno)
            if first <= line <= node.lineno:
                return node
    return None


def grown_in(statement: ast.stmt) -> str:
    """The list to which a statement appends one value; empty for any other statement."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[_])):
            return name
        case _:
            return ""


def is_apart(node: ast.For) -> bool:
    """True if no iteration of a loop reads values of another one, except lists that grow."""
    written = set(names_in(node.body, ast.Store))
    for statement in node.body:
        match statement:
            case ast.Expr(value=ast.Call(args=[value])) if name := grown_in(statement):
                stored, reads = "", {name, *names_in([value], ast.Load)}
            case ast.Assign(targets=[ast.Name(id=stored)], value=value):
                reads = set(names_in([value], ast.Load))
            case _:
                return False
        if reads & written:
            return False
        written.discard(stored)
    return not node.orelse


def paired(target: ast.expr, source: ast.expr) -> Iterator[tuple[str, ast.expr | None]]:
    """The names of a loop, each with the expression that it iterates over; None for a counter."""
    match target, source:
        case ast.Name(id=name), ast.Call(func=ast.Name(id="range")):
            yield name, None
        case (
            ast.Tuple(elts=[ast.Name(id=counter), rest]),
            (
                ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_])
                | ast.Call(func=ast.Attribute(value=inner, attr="items"))
            ),
        ):
            yield counter, None
            yield from paired(rest, inner)
        case ast.Tuple(elts=targets), ast.Call(func=ast.Name(id="zip"), args=sources) if len(targets) == len(
            sources
        ):
            for one, inner in zip(targets, sources, strict=True):
                yield from paired(one, inner)
        case _, ast.Call(func=ast.Attribute(value=inner, attr="values" | "children")):
            yield from paired(target, inner)
        case _:
            yield from ((name, source) for name in names_in([target], ast.Store))


def place_line(node: ast.expr) -> int:
    """The line that the interpreter gives to a call: the method name's line, if it is on a line of its own."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.end_lineno or node.lineno
    return node.lineno


def whole_number_in(node: ast.expr) -> int | None:
    """The whole number in a literal expression; None for anything else."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number_in(node: ast.expr) -> str:
    """The text of an expression of plain numbers; empty for anything else."""
    for one in ast.walk(node):
        match one:
            case ast.Constant(value=bool() | str() | None):
                return ""
            case ast.Constant() | ast.BinOp() | ast.UnaryOp() | ast.operator() | ast.unaryop() | ast.Load():
                pass
            case ast.Call(func=ast.Attribute(), keywords=[]) | ast.Attribute(value=ast.Name()):
                pass
            case ast.Name(id=name) if name in _CONSTANT_MODULES:
                pass
            case _:
                return ""
    return ast.unparse(node)


def writes_in_place(node: ast.AST) -> bool:
    """True for calls that may change a tensor (``add_``, ``out=``, ``inplace=True``), and for stores."""
    match node:
        case ast.AugAssign() | ast.Subscript(ctx=ast.Store()):
            return True
        case ast.Call(func=ast.Attribute(attr=name)) if name.endswith("_") and not name.endswith("__"):
            return True
        case ast.Call(keywords=keywords):
            return any(one.arg in ("out", "inplace") for one in keywords)
        case _:
            return False
