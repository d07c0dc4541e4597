"""Makes a name of a library usable in a file, through an import that is there or one more."""

from __future__ import annotations

import ast

from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import insert_after, insert_before
from skyline.source.program import Module
from skyline.source.scope import Binding, BindingKind, NameScope
from skyline.source.text import Function, TextEdit, is_text

# Modules that are loaded with their package: ``import torch`` is enough to write ``torch.nn.functional``.
_COME_ALONG = {
    *("torch.nn", "torch.nn.functional", "torch.optim", "torch.amp", "torch.cuda", "torch.cuda.amp"),
    *("torch.backends", "torch.backends.cudnn", "torch.backends.cuda", "torch.backends.cuda.matmul"),
    *("torch.autograd", "torch.utils", "torch.utils.data", "torch.distributed", "torch.autograd.graph"),
}


@dataclass(frozen=True, slots=True)
class Usable:
    """The way to write a name at a place (``text``), and the edits that it needs."""

    text: str
    edits: tuple[TextEdit, ...] = ()


def usable(module: Module, target: str, at: ast.AST, *, behind: bool = False) -> Usable:
    """A name for ``target`` in the code at a place, or directly ``behind`` it.

    ``target`` is dotted, as ``torch.autocast``. If its module must be imported separately, a colon separates
    the two: ``torch.utils.checkpoint:checkpoint``. An existing import is used under its name. Without one, an
    import is added next to those of the same package, under another name if its own is taken.
    """
    package, _, attribute = target.partition(":")
    if not attribute:
        package = package.partition(".")[0]
        attribute = target.removeprefix(package).lstrip(".")
    whole = f"{package}.{attribute}" if attribute else package
    if text := _imported(module, package, whole, at, behind):
        return Usable(text)
    first = attribute.partition(".")[0]
    own = package.rpartition(".")[2]
    if "." in package and first:
        name = free_name(module, first, own)
        statement = f"from {package} import {first}" + ("" if name == first else f" as {name}")
        rest = attribute.removeprefix(first)
        return Usable(name + rest, _added(module, statement, package, at, behind))
    name = free_name(module, package, package)
    statement = f"import {package}" + ("" if name == package else f" as {name}")
    return Usable(name + whole.removeprefix(package), _added(module, statement, package, at, behind))


def _imported(module: Module, package: str, whole: str, at: ast.AST, behind: bool) -> str:
    """The shortest text that gives ``whole`` through an existing import; empty without one."""
    found: list[str] = []
    scope: NameScope | None = module.scope(at)
    names = {name for each in _chain(scope) for name in each.bindings}
    for name in names:
        looked_up = module.scope(at).lookup(name)
        if looked_up is None:
            continue
        holder, bindings = looked_up
        if not any(_is_sure(module, holder, binding, at, behind) for binding in bindings):
            continue
        meant = {_meaning(binding, name) for binding in bindings}
        if len(meant) != 1:
            continue
        path = meant.pop()
        if whole == path:
            found.append(name)
        elif whole.startswith(f"{path}.") and _reaches(module, path, package):
            found.append(name + whole.removeprefix(path))
    return min(found, key=lambda text: (text.count("."), len(text), text), default="")


def _reaches(module: Module, path: str, package: str) -> bool:
    """True if an import of ``path`` gives access to the module ``package`` as an attribute."""
    if package == path or not package.startswith(f"{path}.") or package in _COME_ALONG:
        return True
    return any(
        alias.name == package and alias.asname is None
        for node in module.tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
    )


def _meaning(binding: Binding, name: str) -> str:
    if isinstance(binding.node, ast.Import):
        for alias in binding.node.names:
            if alias.asname == name:
                return alias.name
            if alias.asname is None and alias.name.partition(".")[0] == name:
                return name
    if isinstance(binding.node, ast.ImportFrom) and not binding.node.level:
        for alias in binding.node.names:
            if (alias.asname or alias.name) == name:
                return f"{binding.node.module}.{alias.name}"
    return ""


def _is_sure(module: Module, holder: NameScope, binding: Binding, at: ast.AST, behind: bool) -> bool:
    """True if an import has certainly run before the place is reached."""
    if binding.kind is not BindingKind.IMPORTED or binding.conditional:
        return False
    if any(isinstance(around, ast.Try) for around in module.around(binding.node)):
        return False
    same_function = module.scope(at) is holder
    if same_function or isinstance(holder.node, Function):
        if behind:
            return _line(binding.node) <= _end(at)
        return _line(binding.node) < _line(at)
    return True


def free_name(module: Module, name: str, package: str) -> str:
    """The name, or a similar one, that the file does not use."""
    taken = {each.id for each in module.nodes if isinstance(each, ast.Name)}
    taken |= {each.arg for each in module.nodes if isinstance(each, ast.arg)}
    for scope in {id(scope): scope for scope in module.scopes.values()}.values():
        taken |= scope.bindings.keys() | scope.outer_names
    candidates = (name, f"_{name}") if name == package else (name, f"{package}_{name}", f"_{name}")
    fitting = (each for each in candidates if each not in taken)
    return next(fitting, None) or next(f"_{name}{n}" for n in range(2, 1000) if f"_{name}{n}" not in taken)


def added_at(module: Module, statement: str, package: str) -> tuple[TextEdit, ...]:
    """The edit that adds an import at the usual place, for code behind all imports."""
    return _added(module, statement, package, module.tree.body[-1], behind=True)


def _added(module: Module, statement: str, package: str, at: ast.AST, behind: bool) -> tuple[TextEdit, ...]:
    """The edit that adds an import at the usual place."""
    root = package.partition(".")[0]
    outermost = _outermost(module, at)
    limit = _end(outermost) + 1 if behind else _line(outermost)
    imports = [
        each
        for each in module.tree.body
        if isinstance(each, ast.Import | ast.ImportFrom) and (each.end_lineno or each.lineno) < limit
    ]
    akin = [each for each in imports if root in {name.partition(".")[0] for name in _packages(each)}]
    head = [each for each in imports if each in _head(module)]
    for group in (akin, head):
        if group:
            return insert_after(module, group[-1], statement)
    body = module.tree.body
    if is_text(body[0]) and len(body) > 1 and _line(body[0]) < limit:
        return insert_after(module, body[0], statement)
    return insert_before(module, body[0], statement)


def _head(module: Module) -> list[ast.stmt]:
    """The docstring and the imports that a file begins with."""
    found: list[ast.stmt] = []
    for each in module.tree.body:
        if not (isinstance(each, ast.Import | ast.ImportFrom) or (not found and is_text(each))):
            break
        found.append(each)
    return found


def _packages(statement: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    return [statement.module or ""] if not statement.level else []


def _outermost(module: Module, node: ast.AST) -> ast.AST:
    chain = [node, *module.around(node)]
    return chain[-2] if len(chain) > 1 else node


def _chain(scope: NameScope | None) -> list[NameScope]:
    found: list[NameScope] = []
    while scope is not None:
        found.append(scope)
        scope = scope.parent
    return found


def _end(node: ast.AST) -> int:
    return getattr(node, "end_lineno", None) or getattr(node, "lineno", 1)


def _line(node: ast.AST) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([getattr(node, "lineno", 1), *(each.lineno for each in decorators)])
