"""The files of a program: the script and the user's own modules that it imports."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path
from typing import TypeVar

from skyline.errors import SkylineError
from skyline.lazy_dataclass import dataclass
from skyline.source.scope import NameScope, own_scope, scopes_of
from skyline.source.text import Function, SourceText, children, dotted, last_name, literal_key, parse

ReadSource = Callable[[Path], SourceText | None]
"""Returns a file's text, or None if there is no such file."""

Node = TypeVar("Node", bound=ast.AST)

_MODULE_LIMIT = 60
# Scripts are often a few folders below the package that they import.
_FOLDERS_UPWARD = 3
_LIBRARIES = sys.stdlib_module_names | {"torch", "torchvision", "torchaudio", "numpy", "transformers"}


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """One parsed file."""

    source: SourceText
    tree: ast.Module
    scopes: dict[ast.AST, NameScope]
    parents: dict[ast.AST, ast.AST]
    """The parent of each node."""
    nodes: tuple[ast.AST, ...]
    """All nodes, outer ones first, then in textual order."""
    top: NameScope
    """The scope of the file itself."""
    own_attributes: dict[ast.AST, dict[str, list[ast.expr]]] = field(
        default_factory=dict[ast.AST, dict[str, list[ast.expr]]]
    )
    """For each function, its assignments to ``self.name``, by name."""
    returns: dict[ast.AST, list[ast.expr]] = field(default_factory=dict[ast.AST, list[ast.expr]])
    """For each function, the expressions that it returns."""

    @classmethod
    def of(cls, source: SourceText) -> Module:
        """Parse a file; raises UsageError if it is not Python."""
        tree = parse(source)
        parents: dict[ast.AST, ast.AST] = {}
        nodes: list[ast.AST] = [tree]
        for node in nodes:
            for child in children(node):
                parents[child] = node
                nodes.append(child)
        scopes = scopes_of(tree)
        first = next(iter(scopes.values()), None)
        top = first.module if first else NameScope(tree, None)
        made = cls(source, tree, scopes, parents, tuple(nodes), top)
        made._index_functions()
        return made

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.source.path

    def scope(self, node: ast.AST) -> NameScope:
        """The scope in which a node is evaluated."""
        around: ast.AST | None = node
        while around is not None:
            if around in self.scopes:
                return self.scopes[around]
            around = self.parents.get(around)
        return self.top

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The ancestors of a node, nearest first."""
        parent = self.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)

    def _index_functions(self) -> None:
        for node in self.nodes:
            match node:
                case ast.Return(value=ast.expr() as value):
                    self.returns.setdefault(self.scope(node).node, []).append(value)
                case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                        if isinstance(target, ast.Attribute) and dotted(target.value) == "self":
                            for around in self.around(node):
                                if isinstance(around, Function):
                                    names = self.own_attributes.setdefault(around, {})
                                    names.setdefault(target.attr, []).append(value)
                case _:
                    pass


@dataclass(frozen=True, slots=True)
class Store:
    """``target = value``, where the target is an attribute or an item with a literal key."""

    module: Module
    target: ast.Attribute | ast.Subscript
    statement: ast.Assign | ast.AnnAssign | ast.AugAssign
    value: ast.expr

    @property
    def owner(self) -> ast.expr:
        """The object that is modified."""
        return self.target.value


class Program:
    """A script with the local modules that it imports, each read once."""

    def __init__(self, script: SourceText, read: ReadSource) -> None:
        self._read = read
        self._known: dict[Path, Module | None] = {}
        self.script = Module.of(script)
        self._known[Path(script.path)] = self.script
        self.modules = [self.script]
        self._nodes: list[tuple[Module, ast.AST]] = []
        self._kinds: dict[type[ast.AST], list[tuple[Module, ast.AST]]] = {}
        self._members: dict[str, list[tuple[Module, ast.AST]]] = {}
        self._found: dict[tuple[Path, str, int], Module | None] = {}
        self.defined: set[str] = set()
        """The names of all functions and classes of the program."""
        self._calls: dict[str, list[tuple[Module, ast.Call]]] = {}
        self._stores: dict[str, list[Store]] = {}
        for module in self.modules:
            for node in module.nodes:
                if isinstance(node, ast.Import | ast.ImportFrom):
                    for imported in self._imported(module, node):
                        self._add(imported)
            self._index(module)

    @property
    def is_cut(self) -> bool:
        """True if the program may have more files than are read."""
        return len(self.modules) >= _MODULE_LIMIT

    def open(self, path: Path) -> Module | None:
        """The module at a path; None if no parseable file exists there."""
        if path not in self._known:
            try:
                source = self._read(path)
                self._known[path] = Module.of(source) if source is not None else None
            except SkylineError:
                self._known[path] = None
        return self._known[path]

    def find_module(self, importer: Module, name: str, level: int = 0) -> Module | None:
        """The local module that ``import name`` in a file refers to; ``level`` counts the dots before the name."""
        folder = Path(importer.path).parent
        # A module without a relative name is the same for every importer.
        key = (folder if level else Path(), name, level)
        if key not in self._found:
            self._found[key] = self._find_module(folder, name, level)
        return self._found[key]

    def _find_module(self, folder: Path, name: str, level: int) -> Module | None:
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
        """Every call, in any module, whose callee ends in this name."""
        return self._calls.get(name, [])

    def stores_of(self, name: str) -> list[Store]:
        """Every assignment to an attribute or item of this name, in textual order."""
        return self._stores.get(name, [])

    def nodes(self) -> list[tuple[Module, ast.AST]]:
        """Every node of every module; the script comes first."""
        return self._nodes

    def nodes_of(self, *kinds: type[Node]) -> Iterator[tuple[Module, Node]]:
        """Every node of exactly these types, grouped by type; the script comes first within a type."""
        for kind in kinds:
            for module, node in self._kinds.get(kind, ()):
                if isinstance(node, kind):
                    yield module, node

    def members_of(self, name: str) -> list[tuple[Module, ast.AST]]:
        """Every class, dict display and assignment to an attribute that has a member of this name."""
        return self._members.get(name, [])

    def _index(self, module: Module) -> None:
        for node in module.nodes:
            self._nodes.append((module, node))
            self._kinds.setdefault(type(node), []).append((module, node))
            if isinstance(node, Function | ast.ClassDef):
                self.defined.add(node.name)
            for name in _member_names(module, node):
                self._members.setdefault(name, []).append((module, node))
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


def _member_names(module: Module, node: ast.AST) -> list[str]:
    match node:
        case ast.ClassDef():
            return list(own_scope(module.scopes, node).bindings)
        case ast.Assign(targets=[ast.Attribute(attr=name)]):
            return [name]
        case ast.Dict():
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            return list(dict.fromkeys(key for key in keys if isinstance(key, str)))
        case _:
            return []
