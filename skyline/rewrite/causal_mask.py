"""Proves that a mask hides later positions: it was cut from a lower triangle of ones."""

from __future__ import annotations

import ast

from skyline.source.arguments import qualified_name
from skyline.source.program import Module
from skyline.source.text import Function, last_name

_SAME_NUMBERS = (
    "view", "reshape", "unsqueeze", "bool", "to", "type", "float", "byte", "int", "expand", "clone",
)  # fmt: skip


def is_causal(module: Module, condition: ast.expr) -> bool:
    """True if a condition is known to hold above the diagonal and nowhere else, judging by the file."""
    match condition:
        case ast.Compare(left=mask, ops=[ast.Eq()], comparators=[ast.Constant(value=0 | False)]):
            return _triangle(module, mask) == "lower"
        case ast.Compare(left=mask, ops=[ast.NotEq()], comparators=[ast.Constant(value=0 | False)]):
            return _triangle(module, mask) == "upper"
        case ast.Compare(left=mask, ops=[ast.Eq()], comparators=[ast.Constant(value=1 | True)]):
            return _triangle(module, mask) == "upper"
        case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=mask):
            return _triangle(module, mask) == "lower"
        case ast.Call(func=ast.Attribute(value=mask, attr="logical_not"), args=[]):
            return _triangle(module, mask) == "lower"
        case ast.Call(args=[mask]) if qualified_name(module, condition.func) == "torch.logical_not":
            return _triangle(module, mask) == "lower"
        case _:
            return _triangle(module, condition) == "upper"


def _triangle(module: Module, node: ast.expr) -> str:
    """``lower`` for a square tensor of ones on and below the diagonal, ``upper`` for above it; else empty."""
    for _ in range(20):
        match node:
            case ast.Subscript(value=inner, slice=cut):
                if not _square(cut):
                    return ""
                node = inner
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if (
                name in _SAME_NUMBERS and not _is_torch(module, node.func)
            ):
                node = inner
            case ast.Call(func=ast.Attribute(attr="tril" | "triu")) | ast.Call(func=ast.Name()):
                return _made(module, node)
            case ast.Name() | ast.Attribute():
                values = _definitions(module, node)
                if len(values) != 1:
                    return ""
                node = values[0]
            case _:
                return ""
    return ""


def _made(module: Module, call: ast.Call) -> str:
    """The triangle of ``torch.tril(torch.ones(n, n))`` or ``torch.triu(torch.ones(n, n), diagonal=1)``."""
    name = qualified_name(module, call.func)
    if name in ("torch.tril", "torch.triu"):
        if not call.args:
            return ""
        base, offset = call.args[0], call.args[1:]
    elif isinstance(call.func, ast.Attribute) and call.func.attr in ("tril", "triu"):
        base, offset, name = call.func.value, call.args, call.func.attr
    else:
        return ""
    given = [each.value for each in call.keywords if each.arg == "diagonal"] + list(offset)
    diagonal = given[0] if given else ast.Constant(0)
    if not isinstance(diagonal, ast.Constant) or not _is_ones(module, base):
        return ""
    if name.endswith("tril"):
        return "lower" if diagonal.value == 0 else ""
    return "upper" if diagonal.value == 1 else ""


def _is_ones(module: Module, node: ast.expr) -> bool:
    """True for ``torch.ones(n, n)`` with two sizes that are written alike."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _SAME_NUMBERS
        and not _is_torch(module, node.func)
    ):
        node = node.func.value
    if not isinstance(node, ast.Call) or qualified_name(module, node.func) != "torch.ones":
        return False
    sizes = node.args[0].elts if node.args and isinstance(node.args[0], ast.Tuple | ast.List) else node.args
    return len(sizes) >= 2 and ast.dump(sizes[-1]) == ast.dump(sizes[-2])


def _square(cut: ast.expr) -> bool:
    """True if a cut of a square is a square: ``[:, :, :T, :T]``, ``[None]``, or both ends cut alike."""
    parts = cut.elts if isinstance(cut, ast.Tuple) else [cut]
    ends = [part for part in parts if isinstance(part, ast.Slice)]
    others = [part for part in parts if not isinstance(part, ast.Slice)]
    if not all(isinstance(part, ast.Constant) and part.value in (None, ...) for part in others):
        return False
    if any(end.lower is not None or end.step is not None for end in ends):
        return False
    limits = [None if end.upper is None else ast.dump(end.upper) for end in ends]
    bounded = [limit for limit in limits if limit is not None]
    return not bounded or (len(bounded) == 2 and bounded[0] == bounded[1] and limits[-2:] == bounded)


def _definitions(module: Module, node: ast.Name | ast.Attribute) -> list[ast.expr]:
    """All values that the function or class gives to a local name or an attribute of ``self``."""
    if isinstance(node, ast.Name):
        function = next((each for each in module.around(node) if isinstance(each, Function)), None)
        if function is None:
            return []
        found: list[ast.expr] = []
        for each in ast.walk(function):
            if isinstance(each, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == node.id for target in each.targets
            ):
                found.append(each.value)
            elif isinstance(each, ast.Name) and each.id == node.id and isinstance(each.ctx, ast.Store):
                if not isinstance(module.parents.get(each), ast.Assign):
                    return []
            elif isinstance(each, ast.arg) and each.arg == node.id:
                return []
        return found
    return own_values(module, node)


def own_values(module: Module, node: ast.expr) -> list[ast.expr]:
    """The values that the methods of a class assign to an attribute, or register as a buffer."""
    owner = next((each for each in module.around(node) if isinstance(each, ast.ClassDef)), None)
    if owner is None or not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return []
    found: list[ast.expr] = []
    for method in (each for each in owner.body if isinstance(each, Function)):
        own = next((each.arg for each in (*method.args.posonlyargs, *method.args.args)), "")
        if node.value.id == own or not any(each is method for each in module.around(node)):
            found += _given_to(method, own, node.attr)
        else:
            return []
    return found


def _given_to(method: ast.FunctionDef | ast.AsyncFunctionDef, own: str, name: str) -> list[ast.expr]:
    found: list[ast.expr] = []
    for each in ast.walk(method):
        match each:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=owner), attr=attr)], value=value):
                if (owner, attr) == (own, name):
                    found.append(value)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=owner), attr="register_buffer"), args=[given, value, *_]
            ):
                if owner == own and isinstance(given, ast.Constant) and given.value == name:
                    found.append(value)
            case _:
                pass
    return found


def _is_torch(module: Module, func: ast.expr) -> bool:
    return qualified_name(module, func).startswith("torch.") or last_name(func) == ""
