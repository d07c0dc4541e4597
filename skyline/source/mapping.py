"""Keys of a mapping that is unpacked into a call (``**options``)."""

from __future__ import annotations

import ast

from skyline.source.members import item, updates
from skyline.source.origin import Frame, Route, Value
from skyline.source.resolver import Resolver
from skyline.source.text import last_name


def holds(resolver: Resolver, node: ast.expr, frame: Frame, key: str, route: Route) -> bool | None:
    """True or False for the presence of ``key``; None if some entries of the mapping are unknown."""
    found = resolver.follow(node, frame, route)
    if any(item(resolver, each, key, route) for each in found):
        return True
    return False if found and all(_readable(resolver, each, route, 0) for each in found) else None


def _readable(resolver: Resolver, found: object, route: Route, depth: int) -> bool:
    if not isinstance(found, Value) or depth > 8:
        return False
    node, frame = found.node, found.frame
    if isinstance(node, ast.Dict):
        spread = [value for name, value in zip(node.keys, node.values, strict=True) if name is None]
        literal = all(name is None or isinstance(name, ast.Constant) for name in node.keys)
    elif isinstance(node, ast.Call) and last_name(node.func) == "dict":
        spread = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg is None)]
        literal = True
    else:
        return False
    later = [
        (value, where)
        for call, where in updates(resolver, found, route)
        for value in (*call.args, *(keyword.value for keyword in call.keywords if keyword.arg is None))
    ]
    parts = [*((value, frame) for value in spread), *later]
    return literal and all(_all_readable(resolver, value, where, route, depth + 1) for value, where in parts)


def _all_readable(resolver: Resolver, node: ast.expr, frame: Frame, route: Route, depth: int) -> bool:
    found = resolver.follow(node, frame, route)
    return bool(found) and all(_readable(resolver, each, route, depth) for each in found)
