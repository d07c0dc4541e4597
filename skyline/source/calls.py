"""The calls on a source line."""

from __future__ import annotations

import ast
from collections.abc import Callable

from skyline.source.program import Module
from skyline.source.scope import BindingKind
from skyline.source.syntax import dotted

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
