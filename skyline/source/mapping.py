"""Keys of a mapping that is unpacked into a call (``**options``)."""

from __future__ import annotations

import ast

from skyline.source.members import item, updates
from skyline.source.origin import Frame, Route, Value
from skyline.source.resolver import Resolver
from skyline.source.text import last_name


def holds(resolver: Resolver, node: ast.expr, frame: Frame, key: str, route: Route) -> bool | None:
    """True or False for the presence of ``key``; None if some entries of the mapping are unknown.

    A key is present even if its value cannot be followed.
    """
    found = resolver.follow(node, frame, route)
    if any(item(resolver, each, key, route) for each in found):
        return True
    keys = [_keys(resolver, each, route, 0) for each in found]
    known = [one for one in keys if one is not None]
    if any(key in one for one in known):
        return True
    return False if found and len(known) == len(keys) else None


def _keys(resolver: Resolver, found: object, route: Route, depth: int) -> set[str] | None:
    """The keys of a mapping; None if some are unknown."""
    if not isinstance(found, Value) or depth > 8:
        return None
    node, frame = found.node, found.frame
    keys: set[str] = set()
    if isinstance(node, ast.Dict):
        spread = [value for name, value in zip(node.keys, node.values, strict=True) if name is None]
        for name in node.keys:
            if name is not None and not isinstance(name, ast.Constant):
                return None
            keys |= {str(name.value)} if name is not None else set()
    elif isinstance(node, ast.Call) and last_name(node.func) == "dict":
        spread = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg is None)]
        keys |= {keyword.arg for keyword in node.keywords if keyword.arg is not None}
    else:
        return None
    parts = [(value, frame) for value in spread]
    for call, where in updates(resolver, found, route):
        keys |= {keyword.arg for keyword in call.keywords if keyword.arg is not None}
        unpacked = [keyword.value for keyword in call.keywords if keyword.arg is None]
        parts += [(value, where) for value in (*call.args, *unpacked)]
    for value, where in parts:
        behind = [_keys(resolver, each, route, depth + 1) for each in resolver.follow(value, where, route)]
        if not behind or None in behind:
            return None
        keys |= {key for each in behind for key in each or ()}
    return keys
