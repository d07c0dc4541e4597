"""Resolves the local imports of a Python file from the source text alone."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

ReadText = Callable[[str], "str | None"]
"""Returns the text of a file, or None if it does not exist."""

# As in skyline.source.program: scripts are often a few folders below the package that they import.
_FOLDERS_UPWARD = 3
_MOST_MODULES = 60


@dataclass(slots=True)
class LocalImports:
    """The import graph, built on demand. Each file is parsed once."""

    read: ReadText
    _named: dict[str, tuple[tuple[str, int], ...]] = field(
        default_factory=dict[str, tuple[tuple[str, int], ...]]
    )

    def reached(self, script: str) -> dict[str, int]:
        """The files that a script imports, directly or indirectly, with the length of the import chain."""
        found = {script: 0}
        waiting = [script]
        for path in waiting:
            for imported in self._imported(path, os.path.dirname(script)):
                if imported not in found and len(found) <= _MOST_MODULES:
                    found[imported] = found[path] + 1
                    waiting.append(imported)
        del found[script]
        return found

    def _imported(self, path: str, script_folder: str) -> Iterator[str]:
        for name, level in self._names(path):
            for base in _folders(path, script_folder, name, level):
                stem = os.path.join(base, *name.split(".")) if name else base
                candidates = [f"{stem}.py"] if name else []
                candidates.append(os.path.join(stem, "__init__.py"))
                known = next((one for one in candidates if self.read(one) is not None), None)
                if known is not None:
                    yield known
                    break

    def _names(self, path: str) -> tuple[tuple[str, int], ...]:
        """The dotted names that a file imports, each with its number of leading dots."""
        if path not in self._named:
            text = self.read(path)
            try:
                tree = ast.parse(text or "")
            except (SyntaxError, ValueError, RecursionError):
                # The text is often not valid Python while the user types.
                tree = ast.Module([], [])
            self._named[path] = tuple(dict.fromkeys(_imports(tree)))
        return self._named[path]


def _imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                # Importing a.b runs a/__init__.py as well.
                parts = alias.name.split(".")
                yield from ((".".join(parts[: count + 1]), 0) for count in range(len(parts)))
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            parts = module.split(".") if module else []
            yield from ((".".join(parts[: count + 1]), node.level) for count in range(len(parts)))
            yield from (
                (f"{module}.{alias.name}".lstrip("."), node.level)
                for alias in node.names
                if alias.name != "*"
            )


def _folders(path: str, script_folder: str, name: str, level: int) -> list[str]:
    """Search path of a name: the importer's package, or the script's folder and its parents."""
    if level:
        return _upward(os.path.dirname(path), level)[level - 1 :]
    if name.partition(".")[0] in sys.stdlib_module_names:
        return []
    return _upward(script_folder, 1 + _FOLDERS_UPWARD)


def _upward(folder: str, most: int) -> list[str]:
    found = [folder]
    while len(found) < most and (parent := os.path.dirname(found[-1])) != found[-1]:
        found.append(parent)
    return found
