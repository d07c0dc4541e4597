"""Comparison of two versions of a source, ignoring comments, layout and docstrings."""

from __future__ import annotations

import ast
from functools import lru_cache

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def same_code(left: str, right: str) -> bool:
    """True if both versions run the same code. Unparseable versions must be equal as text."""
    if left == right:
        return True
    ours = _essence(left)
    return ours is not None and ours == _essence(right)


@lru_cache(maxsize=64)
def _essence(text: str) -> str | None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            # A body may not be empty; the placeholder for a docstring does not depend on its text.
            node.body[0] = ast.Pass()
    try:
        return ast.dump(tree)
    except RecursionError:
        return None
