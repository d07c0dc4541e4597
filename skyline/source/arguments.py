"""Calls on a source line, and the matching of their arguments to a function's parameters."""

from __future__ import annotations

import ast
from collections.abc import Callable

from skyline.lazy_dataclass import dataclass
from skyline.source.program import Module, Program
from skyline.source.scope import BindingKind, NameScope
from skyline.source.text import Function, dotted, last_name


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call and its place. The call may be derived from ``spawn(f, args=(…))``, with the arguments of f."""

    module: Module
    call: ast.Call
    scope: NameScope


@dataclass(frozen=True, slots=True)
class Passed:
    """The argument of a call for a parameter: an expression, mappings (``**these``) that may hold it, or nothing."""

    value: ast.expr | None = None
    mappings: tuple[ast.expr, ...] = ()


def passed(call: ast.Call, name: str, position: int | None) -> Passed:
    """The argument for the parameter ``name``; ``position`` is its positional index, negative for ``self``."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return Passed(keyword.value)
    if position is not None and 0 <= position < len(call.args):
        before = call.args[: position + 1]
        if not any(isinstance(argument, ast.Starred) for argument in before):
            return Passed(call.args[position])
    return Passed(None, tuple(keyword.value for keyword in call.keywords if keyword.arg is None))


def position_of(function: Function | ast.Lambda, parameter: str, *, bound: bool) -> int | None:
    """The positional index of the parameter; ``self`` of ``bound`` methods does not count."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if parameter not in names:
        return None
    return names.index(parameter) - (1 if bound else 0)


def is_method(module: Module, function: ast.AST) -> bool:
    """True if the function is defined in a class body and takes the instance or class first."""
    if not isinstance(module.parents.get(function), ast.ClassDef) or not isinstance(function, Function):
        return False
    return "staticmethod" not in {last_name(decorator) for decorator in function.decorator_list}


def call_sites(program: Program, module: Module, function: Function) -> list[CallSite]:
    """The calls of a function or method in the program; for ``__init__``, the constructor calls of its class."""
    owner = module.parents.get(function)
    sites: list[CallSite] = []
    if isinstance(owner, ast.ClassDef):
        names = [owner.name] if function.name == "__init__" else [function.name]
        for name in names:
            for where, call in program.calls_of(name):
                if function.name == "__init__" or isinstance(call.func, ast.Attribute):
                    sites.append(CallSite(where, call, where.scope(call)))
        return [site for site in sites if _fits(site.call, function)]
    for where, call in program.calls_of(function.name):
        if _means(where, call.func, function):
            sites.append(CallSite(where, call, where.scope(call)))
    return [site for site in sites if _fits(site.call, function)] + _started(program, function)


def _means(module: Module, callee: ast.expr, function: Function) -> bool:
    """True if the call's name refers to this function, not to another one of that name, as in ``model.train()``."""
    base = callee.value if isinstance(callee, ast.Attribute) else callee
    if not isinstance(base, ast.Name):
        return False
    found = module.scope(callee).lookup(base.id)
    if found is None:
        return isinstance(callee, ast.Name) and bool(module.top.star_imports)
    if isinstance(callee, ast.Attribute):
        return any(binding.kind is BindingKind.IMPORTED for binding in found[1])
    return any(binding.node is function or binding.kind is BindingKind.IMPORTED for binding in found[1])


def _fits(call: ast.Call, function: Function) -> bool:
    names = {parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)}
    names |= {parameter.arg for parameter in function.args.kwonlyargs}
    keywords = {keyword.arg for keyword in call.keywords if keyword.arg}
    return function.args.kwarg is not None or keywords <= names


def _started(program: Program, function: Function) -> list[CallSite]:
    """Indirect calls: ``spawn(f, args=(…))``, ``Process(target=f, args=(…))``, ``partial(f, …)``."""
    sites: list[CallSite] = []
    for starter in ("spawn", "Process", "Thread", "partial"):
        for module, call in program.calls_of(starter):
            target = passed(call, "fn" if starter == "spawn" else "target", 0).value
            if target is None or not isinstance(target, ast.Name) or not _means(module, target, function):
                continue
            if starter == "partial":
                arguments, keywords = call.args[1:], call.keywords
            else:
                given = passed(call, "args", 1 if starter == "spawn" else None).value
                arguments = list(given.elts) if isinstance(given, ast.Tuple | ast.List) else []
                keywords = []
                if starter == "spawn":
                    arguments = [ast.Constant(None), *arguments]  # the rank comes first
            made = ast.copy_location(ast.Call(target, arguments, keywords), call)
            sites.append(CallSite(module, made, module.scope(call)))
    return sites


_TORCH_OPTIM = "torch.optim"
_NOT_OPTIMIZERS = ("torch.optim.lr_scheduler", "torch.optim.swa_utils")


def calls_at(module: Module, line: int, accept: Callable[[ast.expr], bool]) -> list[ast.Call]:
    """The calls on a line whose callee is accepted, innermost first; calls that start on the line take precedence."""
    covering = [
        node
        for node in module.nodes
        if isinstance(node, ast.Call)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
        and accept(node.func)
    ]
    starting = [call for call in covering if call.lineno == line]
    return sorted(starting or covering, key=lambda call: (-call.lineno, -call.col_offset))


def qualified_name(module: Module, node: ast.expr) -> str:
    """The full name by the file's imports: ``optim.SGD`` becomes ``torch.optim.SGD``; unchanged without an import."""
    name = dotted(node)
    first, _, rest = name.partition(".")
    found = module.scope(node).lookup(first) if first else None
    for binding in found[1] if found else ():
        if binding.kind is not BindingKind.IMPORTED:
            return ""
        if not isinstance(binding.node, ast.Import | ast.ImportFrom):
            continue
        for alias in binding.node.names:
            if isinstance(binding.node, ast.ImportFrom) and (alias.asname or alias.name) == first:
                return ".".join(part for part in (binding.node.module or "", alias.name, rest) if part)
            if isinstance(binding.node, ast.Import) and alias.asname == first:
                return ".".join(part for part in (alias.name, rest) if part)
    return name


def torch_optimizer(module: Module, callee: ast.expr) -> str:
    """The name of the torch.optim class of a callee, such as ``AdamW``; empty for anything else."""
    name = qualified_name(module, callee)
    package, _, last = name.rpartition(".")
    in_torch = package == _TORCH_OPTIM or package.startswith(f"{_TORCH_OPTIM}.")
    in_torch = in_torch and not package.startswith(_NOT_OPTIMIZERS)
    return last if in_torch and last[:1].isupper() else ""
