"""Search for other uses of a variable that sets the batch size."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from skyline.source.batch_uses import is_loader
from skyline.source.origin import Holder, HolderKind
from skyline.source.program import Module, Program
from skyline.source.scope import BindingKind, own_scope, parameters_of
from skyline.source.setting_names import is_batch_name, means_something_else
from skyline.source.text import Function, dotted, last_name, literal_key, text_of

_HARMLESS = {
    "print", "str", "len", "min", "max", "int", "float", "format", "isinstance", "abs", "round", "info",
    "debug", "warning", "append", "add_scalar", "log", "ceil", "floor", "write", "divmod", "repr",
    "mark_step", "update",
}  # fmt: skip
_TRANSPARENT = {"int", "float", "round", "abs"}
_SHAPED = {
    "rand", "randn", "randint", "zeros", "ones", "empty", "full", "normal", "view", "reshape", "expand",
}  # fmt: skip


@dataclass(slots=True)
class _UseSearch:
    program: Program
    seen: set[tuple[HolderKind, str, int]] = field(default_factory=set[tuple[HolderKind, str, int]])


def other_use(program: Program, holders: tuple[Holder, ...]) -> str:
    """A description of another use of one of the variables, for the user; empty if there is none.

    Evaluation loaders, averaging, shapes and progress messages may depend on the batch size.
    """
    search = _UseSearch(program)
    for holder in reversed(holders):
        if reason := _conflict(search, holder, holder.name):
            return reason
    return ""


def _conflict(search: _UseSearch, holder: Holder, name: str) -> str:
    key = (holder.kind, holder.name, id(holder.scope))
    if key in search.seen:
        return ""
    search.seen.add(key)
    for module, node in reads(search.program, holder):
        if reason := _judge(search, module, node, name):
            return reason
    return ""


def reads(program: Program, holder: Holder) -> Iterator[tuple[Module, ast.expr]]:
    """Every place that reads a variable, under its own or an imported name."""
    for module, node in program.nodes_of(ast.Name, ast.Attribute, ast.Subscript):
        match holder.kind, node:
            case HolderKind.ATTRIBUTE, ast.Attribute(attr=holder.name, ctx=ast.Load()):
                yield module, node
            case HolderKind.ITEM, ast.Subscript(ctx=ast.Load()) if literal_key(node) == holder.name:
                yield module, node
            case HolderKind.NAME, ast.Name(id=holder.name, ctx=ast.Load()):
                found = module.scope(node).lookup(holder.name)
                if found is None:
                    continue
                imported = any(binding.kind is BindingKind.IMPORTED for binding in found[1])
                if found[0] is holder.scope or (imported and _is_top(holder)):
                    yield module, node
            case HolderKind.NAME, ast.Attribute(attr=holder.name, ctx=ast.Load()) if _is_top(holder):
                base = module.scope(node).lookup(dotted(node.value))
                if base and any(binding.kind is BindingKind.IMPORTED for binding in base[1]):
                    yield module, node
            case _:
                continue


def _is_top(holder: Holder) -> bool:
    return holder.scope is not None and holder.scope.parent is None


def _judge(search: _UseSearch, module: Module, node: ast.expr, name: str) -> str:
    inner: ast.AST = node
    for around in module.around(node):
        match around:
            case ast.BinOp() | ast.Tuple() | ast.List() | ast.Starred() | ast.IfExp() | ast.UnaryOp():
                inner = around
            case ast.keyword(arg=str() as keyword):
                call = module.parents[around]
                return (
                    _as_argument(search, module, call, keyword, None, name)
                    if isinstance(call, ast.Call)
                    else ""
                )
            case ast.Call() if last_name(around.func) in _TRANSPARENT:
                inner = around
            case ast.Call() if inner in around.args:
                return _as_argument(search, module, around, None, around.args.index(inner), name, inner, node)
            case ast.Assign() | ast.AnnAssign() if around.value is inner and inner is node:
                return _as_alias(search, module, around)
            case ast.Dict() if inner is node:
                keys = [
                    k.value
                    for k, v in zip(around.keys, around.values, strict=True)
                    if v is node and isinstance(k, ast.Constant)
                ]
                if any(isinstance(each, str) and means_something_else(each) for each in keys):
                    return _said(node, f"{{{keys[0]!r}: {name}}}", name)
                return ""
            case _:
                return ""
    return ""


def _as_argument(
    search: _UseSearch,
    module: Module,
    call: ast.Call,
    keyword: str | None,
    index: int | None,
    name: str,
    argument: ast.AST | None = None,
    node: ast.expr | None = None,
) -> str:
    callee = last_name(call.func)
    reason = _said(call, text_of(call), name)
    if keyword is not None and is_batch_name(keyword):
        return ""
    if keyword is not None and means_something_else(keyword):
        return reason
    if is_loader(module, call.func) or callee in {"BatchSampler", "add_argument", "get"}:
        return reason if keyword not in (None, "default", "drop_last") and not is_batch_name(name) else ""
    if _is_layer(module, call.func):
        return reason
    followed = _into_function(search, module, call, keyword, index)
    if followed is not None:
        return followed
    if is_batch_name(name) or callee in _HARMLESS:
        return ""
    if callee in _SHAPED:
        sizes = argument.elts if isinstance(argument, ast.Tuple | ast.List) else call.args
        return "" if node is not None and sizes and sizes[0] is node else reason
    if callee == "range":
        return "" if len(call.args) == 3 else reason
    return reason


def _as_alias(search: _UseSearch, module: Module, statement: ast.Assign | ast.AnnAssign) -> str:
    for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
        scope = module.scope(statement)
        match target:
            case ast.Name(id=alias):
                holder = Holder(HolderKind.NAME, alias, module, scope)
            case ast.Attribute(attr=alias):
                holder = Holder(HolderKind.ATTRIBUTE, alias, module)
            case ast.Subscript() if alias := literal_key(target):
                holder = Holder(HolderKind.ITEM, alias, module)
            case _:
                continue
        if reason := _conflict(search, holder, alias):
            return reason
    return ""


def _into_function(
    search: _UseSearch, module: Module, call: ast.Call, keyword: str | None, index: int | None
) -> str | None:
    """The conflicting use in a function of the program; None if the callee is unknown code."""
    found = module.scope(call).lookup(dotted(call.func)) if isinstance(call.func, ast.Name) else None
    for binding in found[1] if found else []:
        where, node = module, binding.node
        if binding.kind is BindingKind.IMPORTED and isinstance(node, ast.ImportFrom):
            source = search.program.find_module(module, node.module or "", node.level)
            inside = source.top.bindings.get(binding.name, []) if source else []
            if source is None or not inside:
                continue
            where, node = source, inside[-1].node
        bound = isinstance(node, ast.ClassDef)
        if isinstance(node, ast.ClassDef):
            node = next(
                (each for each in node.body if isinstance(each, Function) and each.name == "__init__"), None
            )
        if not isinstance(node, Function):
            continue
        parameters = [parameter.arg for parameter in parameters_of(node)]
        place = (index or 0) + bound
        parameter = keyword or (parameters[place] if place < len(parameters) else "")
        if parameter not in parameters:
            return ""
        inner = own_scope(where.scopes, node)
        return _conflict(search, Holder(HolderKind.NAME, parameter, where, inner), parameter)
    return None


def _is_layer(module: Module, callee: ast.expr) -> bool:
    """True for the constructor of a torch.nn layer, whose sizes belong to the model and not to the batch."""
    name = dotted(callee)
    if not name or not last_name(callee)[:1].isupper() or last_name(callee) == "Parameter":
        return False
    if name.startswith(("nn.", "torch.nn.")) and "functional" not in name:
        return True
    found = module.scope(callee).lookup(name)
    return any(
        isinstance(binding.node, ast.ImportFrom) and (binding.node.module or "").startswith("torch.nn")
        for binding in (found[1] if found else [])
    )


def _said(node: ast.expr, text: str, name: str) -> str:
    return f"{name} also sets `{text}` on line {node.lineno}, which would change with it"
