"""Name bindings of a file, scope by scope."""

from __future__ import annotations

import ast
from dataclasses import field, replace
from enum import Enum, auto

from skyline.lazy_dataclass import dataclass
from skyline.source.text import Function, children

ScopeNode = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


class BindingKind(Enum):
    """The kind of statement that binds a name."""

    ASSIGNED = auto()
    REASSIGNED = auto()
    """``x += value``"""
    PARAMETER = auto()
    LOOP = auto()
    """``for x in value``"""
    IMPORTED = auto()
    DEFINED = auto()
    """``def x`` or ``class x``"""
    OPAQUE = auto()
    """``with … as x``, ``except … as x``, ``del x``"""


@dataclass(frozen=True, slots=True)
class Binding:
    """One place that gives ``name`` a value.

    ``node`` is the statement, parameter or definition. ``value`` is the expression on the right; ``unpack`` selects a
    part of it (``a, (b, c) = value`` binds c by ``(1, 1)``). A ``conditional`` binding may not run: it is inside
    an ``if``, a loop or an exception handler.
    """

    name: str
    kind: BindingKind
    node: ast.AST
    value: ast.expr | None = None
    unpack: tuple[int, ...] = ()
    conditional: bool = False


@dataclass(slots=True)
class NameScope:
    """The names bound directly in a module, class, function or lambda."""

    node: ScopeNode
    parent: NameScope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict[str, list[Binding]])
    star_imports: list[ast.ImportFrom] = field(default_factory=list[ast.ImportFrom])
    outer_names: set[str] = field(default_factory=set[str])
    """Names declared ``global`` or ``nonlocal``."""

    def lookup(self, name: str) -> tuple[NameScope, list[Binding]] | None:
        """The scope that ``name`` refers to here, and all its bindings there; None for builtins and unknown names."""
        scope: NameScope | None = self
        while scope is not None:
            # A class body is visible to itself only, not to the functions inside it.
            visible = scope is self or not isinstance(scope.node, ast.ClassDef)
            if visible and name in scope.bindings and name not in scope.outer_names:
                return scope, scope.bindings[name]
            scope = scope.parent
        return None

    @property
    def module(self) -> NameScope:
        """The scope of the whole file."""
        return self if self.parent is None else self.parent.module


def scopes_of(tree: ast.Module) -> dict[ast.AST, NameScope]:
    """The scope in which each node is evaluated; a function's own node maps to the enclosing scope."""
    builder = _ScopeBuilder(tree)
    builder.body(tree.body, NameScope(tree, None), False)
    return builder.scopes


def own_scope(scopes: dict[ast.AST, NameScope], node: Function | ast.Lambda | ast.ClassDef) -> NameScope:
    """The scope inside a function, lambda or class."""
    body = node.body
    return scopes[body[0]] if isinstance(body, list) else scopes[body]


class _ScopeBuilder:
    def __init__(self, tree: ast.Module) -> None:
        self.scopes: dict[ast.AST, NameScope] = {}
        self.tree = tree

    def body(self, statements: list[ast.stmt], scope: NameScope, conditional: bool) -> None:
        for statement in statements:
            self.statement(statement, scope, conditional)

    def statement(self, node: ast.stmt, scope: NameScope, conditional: bool) -> None:
        self.scopes[node] = scope

        def bound(kind: BindingKind, value: ast.expr | None = None) -> Binding:
            return Binding("", kind, node, value, (), conditional)

        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.bind(scope, Binding(node.name, BindingKind.DEFINED, node, conditional=conditional))
                for expression in (*node.decorator_list, *([node.returns] if node.returns else [])):
                    self.expression(expression, scope, conditional)
                self.function(node, scope)
            case ast.ClassDef():
                self.bind(scope, Binding(node.name, BindingKind.DEFINED, node, conditional=conditional))
                for expression in (
                    *node.decorator_list,
                    *node.bases,
                    *(word.value for word in node.keywords),
                ):
                    self.expression(expression, scope, conditional)
                self.body(node.body, NameScope(node, scope), False)
            case ast.Assign():
                self.expression(node.value, scope, conditional)
                for target in node.targets:
                    self.target(target, bound(BindingKind.ASSIGNED, node.value), scope)
            case ast.AnnAssign():
                self.expression(node.annotation, scope, conditional)
                if node.value:
                    self.expression(node.value, scope, conditional)
                self.target(node.target, bound(BindingKind.ASSIGNED, node.value), scope)
            case ast.AugAssign():
                self.expression(node.value, scope, conditional)
                self.target(node.target, bound(BindingKind.REASSIGNED, node.value), scope)
            case ast.For() | ast.AsyncFor():
                self.expression(node.iter, scope, conditional)
                self.target(node.target, bound(BindingKind.LOOP, node.iter), scope)
                self.body([*node.body, *node.orelse], scope, True)
            case ast.While() | ast.If():
                self.expression(node.test, scope, conditional)
                # Code under the main guard counts as unconditional: the file is the program here.
                under = conditional or not is_main_guard(node)
                self.body(node.body, scope, under)
                self.body(node.orelse, scope, True)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.expression(item.context_expr, scope, conditional)
                    if item.optional_vars:
                        self.target(item.optional_vars, bound(BindingKind.OPAQUE), scope)
                self.body(node.body, scope, conditional)
            case ast.Try():
                self.body([*node.body, *node.orelse, *node.finalbody], scope, conditional)
                for handler in node.handlers:
                    self.scopes[handler] = scope
                    if handler.type:
                        self.expression(handler.type, scope, conditional)
                    if handler.name:
                        self.bind(scope, Binding(handler.name, BindingKind.OPAQUE, handler, conditional=True))
                    self.body(handler.body, scope, True)
            case ast.Import() | ast.ImportFrom():
                self.imports(node, scope, conditional)
            case ast.Global() | ast.Nonlocal():
                scope.outer_names.update(node.names)
            case _:
                for child in children(node):
                    self.any(child, scope)

    def any(self, node: ast.AST, scope: NameScope) -> None:
        if isinstance(node, ast.stmt):
            self.statement(node, scope, True)
        elif isinstance(node, ast.expr):
            self.expression(node, scope, True)
        else:
            self.scopes[node] = scope
            for child in children(node):
                self.any(child, scope)

    def expression(self, node: ast.expr, scope: NameScope, conditional: bool) -> None:
        self.scopes[node] = scope
        match node:
            case ast.Lambda():
                self.function(node, scope)
                return
            case ast.NamedExpr():
                self.target(
                    node.target, Binding("", BindingKind.ASSIGNED, node, node.value, (), conditional), scope
                )
                self.expression(node.value, scope, conditional)
                return
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                # A comprehension has its own scope in Python; its names are rarely used elsewhere.
                for generator in node.generators:
                    self.target(
                        generator.target, Binding("", BindingKind.LOOP, node, generator.iter, (), True), scope
                    )
            case _:
                pass
        for child in children(node):
            if isinstance(child, ast.expr):
                self.expression(child, scope, conditional)
            else:
                self.any(child, scope)

    def function(self, node: Function | ast.Lambda, outer: NameScope) -> None:
        arguments = node.args
        for default in (*arguments.defaults, *(value for value in arguments.kw_defaults if value)):
            self.expression(default, outer, False)
        inner = NameScope(node, outer)
        for parameter in parameters_of(node):
            self.scopes[parameter] = inner
            if parameter.annotation:
                self.expression(parameter.annotation, outer, False)
            self.bind(inner, Binding(parameter.arg, BindingKind.PARAMETER, parameter))
        for parameter in (arguments.vararg, arguments.kwarg):
            if parameter:
                self.scopes[parameter] = inner
                self.bind(inner, Binding(parameter.arg, BindingKind.OPAQUE, parameter))
        if isinstance(node, ast.Lambda):
            self.expression(node.body, inner, False)
        else:
            self.body(node.body, inner, False)

    def target(self, target: ast.expr, binding: Binding, scope: NameScope) -> None:
        self.scopes[target] = scope
        match target:
            case ast.Name():
                self.bind(scope, replace(binding, name=target.id))
            case ast.Tuple() | ast.List():
                for index, element in enumerate(target.elts):
                    self.target(element, replace(binding, unpack=(*binding.unpack, index)), scope)
            case ast.Starred():
                opaque = replace(binding, kind=BindingKind.OPAQUE, value=None, unpack=())
                self.target(target.value, opaque, scope)
            case _:
                for child in children(target):
                    self.any(child, scope)

    def imports(self, node: ast.Import | ast.ImportFrom, scope: NameScope, conditional: bool) -> None:
        for alias in node.names:
            self.scopes[alias] = scope
            if alias.name == "*" and isinstance(node, ast.ImportFrom):
                scope.star_imports.append(node)
                continue
            name = alias.asname or (
                alias.name if isinstance(node, ast.ImportFrom) else alias.name.split(".")[0]
            )
            self.bind(scope, Binding(name, BindingKind.IMPORTED, node, conditional=conditional))

    def bind(self, scope: NameScope, binding: Binding) -> None:
        scope.bindings.setdefault(binding.name, []).append(binding)
        if binding.name in scope.outer_names and scope.parent:
            # ``global`` precedes the assignment that it governs, so the set is complete here.
            scope.module.bindings.setdefault(binding.name, []).append(binding)


def parameters_of(function: Function | ast.Lambda) -> list[ast.arg]:
    """All named parameters in order, without ``*args`` and ``**kwargs``."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def default_of(function: Function | ast.Lambda, parameter: ast.arg) -> ast.expr | None:
    """The default of the parameter; None if the parameter is required."""
    positional = [*function.args.posonlyargs, *function.args.args]
    if parameter in positional:
        index = positional.index(parameter) - len(positional) + len(function.args.defaults)
        return function.args.defaults[index] if index >= 0 else None
    return function.args.kw_defaults[function.args.kwonlyargs.index(parameter)]


def is_main_guard(node: ast.If | ast.While) -> bool:
    """True for ``if __name__ == "__main__"``."""
    names = {child.id for child in ast.walk(node.test) if isinstance(child, ast.Name)}
    return isinstance(node, ast.If) and names == {"__name__"}
