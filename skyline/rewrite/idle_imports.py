"""Imports that a rewrite added and that nothing uses once the rewrite is taken out."""

from __future__ import annotations

import ast

from skyline.errors import SkylineError
from skyline.rewrite.blocks import remove
from skyline.rewrite.imports import added_at
from skyline.source.edit import TextEdit
from skyline.source.program import Module
from skyline.source.text import SourceText

_HOOKS = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks"
_ADDED = {
    ("torch.utils.checkpoint", "checkpoint"),
    ("torch.cuda.amp", "GradScaler"),
    (_HOOKS, "fp16_compress_hook"),
    (_HOOKS, "bf16_compress_hook"),
}
"""What rewrites import from modules by name; everything else they reach through ``torch``."""


def idle_imports(before: SourceText, after: SourceText) -> tuple[TextEdit, ...]:
    """The edits of ``after`` that remove imports which only the code that is gone used.

    An import goes only where it reads, and stands, exactly as a rewrite would have added it.
    """
    edits: tuple[TextEdit, ...] = ()
    module = Module.of(after)
    for name in sorted(_used(Module.of(before)) - _used(module)):
        for statement in module.tree.body:
            if _binds_only(statement, name) and _is_as_added(module, statement):
                edits += remove(module, statement)
    return edits


def _used(module: Module) -> set[str]:
    """The names that a file reads, or offers to others by ``__all__``."""
    names = {
        node.id for node in module.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    offered = (
        node.value
        for node in module.tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
    )
    texts = {each.value for value in offered for each in ast.walk(value) if isinstance(each, ast.Constant)}
    return names | {text for text in texts if isinstance(text, str)}


def _binds_only(statement: ast.stmt, name: str) -> bool:
    """Whether a statement is an import that rewrites add, and binds this name."""
    if not isinstance(statement, ast.Import | ast.ImportFrom) or len(statement.names) != 1:
        return False
    alias = statement.names[0]
    if (alias.asname or alias.name) != name:
        return False
    if isinstance(statement, ast.Import):
        return alias.name == "torch" and name in ("torch", "_torch")
    return (statement.module, alias.name) in _ADDED and not statement.level


def _is_as_added(module: Module, statement: ast.stmt) -> bool:
    """Whether a rewrite, asked for this import in the file without it, would write this very file."""
    if len(module.tree.body) < 2:
        return False
    without = module.source.apply(remove(module, statement))
    try:
        bare = Module.of(without)
        package = (
            statement.module if isinstance(statement, ast.ImportFrom) else ast.unparse(statement).split()[1]
        )
        return (
            bare.source.apply(added_at(bare, ast.unparse(statement), package or "")).text
            == module.source.text
        )
    except SkylineError:
        return False
