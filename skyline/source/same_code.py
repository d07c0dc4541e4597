"""Whether two versions of a source do the same: comments, layout and docstrings aside."""

from __future__ import annotations

import ast
from functools import lru_cache

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def same_code(left: str, right: str) -> bool:
    """Whether Python would run the same; False where either cannot be parsed here, unless they are equal."""
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
            # A body may not be empty; what stands for a docstring is the same whatever it said.
            node.body[0] = ast.Pass()
    try:
        return ast.dump(tree)
    except RecursionError:
        return None
