"""The files of a program: the script and the person's own modules that it imports."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from skyline.errors import SkylineError
from skyline.source.scope import Scope, scopes_of
from skyline.source.syntax import last_name, literal_key, parse
from skyline.source.text import SourceText

ReadSource = Callable[[Path], SourceText | None]
"""Gives a file's text, None where there is no such file."""

_MODULE_LIMIT = 60
# A project's scripts often stand a few folders below the package that they import.
_FOLDERS_UPWARD = 3
_LIBRARIES = sys.stdlib_module_names | {"torch", "torchvision", "torchaudio", "numpy", "transformers"}


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """One parsed file."""

    source: SourceText
    tree: ast.Module
    scopes: dict[ast.AST, Scope]
    parents: dict[ast.AST, ast.AST]

    @classmethod
    def of(cls, source: SourceText) -> Module:
        """Parse; raises UsageError where this is not Python."""
        tree = parse(source)
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        return cls(source, tree, scopes_of(tree), parents)

    @property
    def path(self) -> str:
        """Where the file is."""
        return self.source.path

    def scope(self, node: ast.AST) -> Scope:
        """The scope that a node is evaluated in."""
        around: ast.AST | None = node
        while around is not None:
            if around in self.scopes:
                return self.scopes[around]
            around = self.parents.get(around)
        return self.top

    @property
    def top(self) -> Scope:
        """The scope of the file itself."""
        first = next(iter(self.scopes.values()), None)
        return first.module if first else Scope(self.tree, None)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that hold this one, nearest first."""
        parent = self.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)


@dataclass(frozen=True, slots=True)
class Store:
    """``target = value`` where the target is an attribute or an item with a literal key."""

    module: Module
    target: ast.Attribute | ast.Subscript
    statement: ast.Assign | ast.AnnAssign | ast.AugAssign
    value: ast.expr

    @property
    def owner(self) -> ast.expr:
        """The object that is changed."""
        return self.target.value


class Program:
    """A script with the local modules it reaches, read once each."""

    def __init__(self, script: SourceText, read: ReadSource) -> None:
        self._read = read
        self._known: dict[Path, Module | None] = {}
        self.script = Module.of(script)
        self._known[Path(script.path)] = self.script
        self.modules = [self.script]
        self._nodes: list[tuple[Module, ast.AST]] = []
        self._calls: dict[str, list[tuple[Module, ast.Call]]] = {}
        self._stores: dict[str, list[Store]] = {}
        for module in self.modules:
            for node in ast.walk(module.tree):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    for imported in self._imported(module, node):
                        self._add(imported)
            self._index(module)

    def open(self, path: Path) -> Module | None:
        """The module at a path, None where there is none that can be parsed."""
        if path not in self._known:
            try:
                source = self._read(path)
                self._known[path] = Module.of(source) if source is not None else None
            except SkylineError:
                self._known[path] = None
        return self._known[path]

    def find_module(self, importer: Module, name: str, level: int = 0) -> Module | None:
        """The local module that ``import name`` means in a file; ``level`` counts the dots before it."""
        folder = Path(importer.path).parent
        if level:
            folders = [folder, *folder.parents][level - 1 : level]
        elif name.partition(".")[0] in _LIBRARIES:
            return None
        else:
            script_folder = Path(self.script.path).parent
            folders = [script_folder, *script_folder.parents][: 1 + _FOLDERS_UPWARD]
        for base in folders:
            stem = base.joinpath(*name.split(".")) if name else base
            candidates = (
                (stem.with_name(stem.name + ".py"), stem / "__init__.py") if name else (stem / "__init__.py",)
            )
            for path in candidates:
                if module := self.open(path):
                    return module
        return None

    def calls_of(self, name: str) -> list[tuple[Module, ast.Call]]:
        """Every call, in any module, of something whose last name is this."""
        return self._calls.get(name, [])

    def stores_of(self, name: str) -> list[Store]:
        """Every assignment to an attribute or item of this name, in textual order."""
        return self._stores.get(name, [])

    def nodes(self) -> list[tuple[Module, ast.AST]]:
        """Every node of every module, the script's first."""
        return self._nodes

    def _index(self, module: Module) -> None:
        for node in ast.walk(module.tree):
            self._nodes.append((module, node))
            if isinstance(node, ast.Call):
                self._calls.setdefault(last_name(node.func), []).append((module, node))
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Attribute):
                        self._stores.setdefault(target.attr, []).append(
                            Store(module, target, node, node.value)
                        )
                    elif isinstance(target, ast.Subscript) and (key := literal_key(target)) is not None:
                        self._stores.setdefault(key, []).append(Store(module, target, node, node.value))

    def _imported(self, module: Module, node: ast.Import | ast.ImportFrom) -> Iterator[Module | None]:
        for alias in node.names:
            if isinstance(node, ast.Import):
                yield self.find_module(module, alias.name)
                continue
            package = node.module or ""
            yield self.find_module(module, package, node.level)
            if alias.name != "*":
                yield self.find_module(module, f"{package}.{alias.name}".lstrip("."), node.level)

    def _add(self, module: Module | None) -> None:
        if module is not None and module not in self.modules and len(self.modules) < _MODULE_LIMIT:
            self.modules.append(module)
