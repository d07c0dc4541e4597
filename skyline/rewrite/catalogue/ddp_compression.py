"""Exchanges gradients in 16 bits, through one of PyTorch's own communication hooks."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.blocks import insert_after, statement_of
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.imports import usable
from skyline.rewrite.sites.replicas import replicas_call
from skyline.rewrite.unwrapping import without_statements
from skyline.source.program import Module
from skyline.source.text import TextEdit, dotted

NAME = "ddp_compression"
_HOOKS = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks"
_REGISTER = "register_comm_hook"


def snippet(value: str) -> str:
    """Two lines after the line that wraps the model."""
    hook = _hook(value)
    return f"from {_HOOKS} import {hook}\n\nmodel.{_REGISTER}(None, {hook})\n"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Adds ``model.register_comm_hook(None, …)`` after the statement that wraps the model."""
    hook = _hook(value)
    fact = context.profile.parallel
    if hook.startswith("bf16") and fact is not None and fact.backend != "nccl":
        raise RewriteRefused(
            f"PyTorch exchanges gradients in bfloat16 over NCCL only, and this job uses {fact.backend}",
            file=context.profile.script,
            hint=f"With {fact.backend}: {NAME}=fp16.",
        )
    module, call = replicas_call(context)
    for where, each in _registered(context):
        if len(each.args) > 1 and dotted(each.args[1]).rpartition(".")[2] == hook:
            return ()
        message = "A communication hook is registered already"
        raise refusal(message, where, each, hint="A model can have only one hook: replace it there.")
    name = _name_of(module, call)
    statement = statement_of(module, call)
    found = usable(module, f"{_HOOKS}:{hook}", statement, behind=True)
    return (*found.edits, *insert_after(module, statement, f"{name}.{_REGISTER}(None, {found.text})"))


def _name_of(module: Module, call: ast.Call) -> str:
    """The name of the wrapped model: the only target of the assignment whose value is the call."""
    statement = module.parents.get(call)
    target: ast.expr | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    if target is None or not dotted(target):
        raise refusal("The wrapped model is not assigned to a name where it is made", module, call)
    return dotted(target)


def _hook(value: str) -> str:
    if value not in ("fp16", "bf16"):
        raise RewriteRefused(f"{value!r} is not a value for {NAME}", hint="Give fp16, or with NCCL bf16.")
    return f"{value}_compress_hook"


def present(context: RewriteContext) -> str | None:
    """The number format of the registered hook, if it is one of PyTorch's own."""
    hooks = [_format(call) for _, call in _registered(context)]
    return hooks[0] if len(hooks) == 1 else None


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Removes the statement that registers the hook."""
    (module, call), *_ = _registered(context)
    statement = statement_of(module, call)
    if not isinstance(statement, ast.Expr) or statement.value is not call:
        message = f"`{_REGISTER}` is part of a larger expression"
        raise refusal(message, module, call, hint="Remove it there.")
    return without_statements(module, [statement])


def _registered(context: RewriteContext) -> list[tuple[Module, ast.Call]]:
    return [
        (module, call)
        for module, call in context.program.nodes_of(ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr == _REGISTER
    ]


def _format(call: ast.Call) -> str | None:
    """The number format of ``register_comm_hook(None, fp16_compress_hook)``; None for any other hook."""
    name = dotted(call.args[1]).rpartition(".")[2] if len(call.args) > 1 else ""
    return next((value for value in ("fp16", "bf16") if name == f"{value}_compress_hook"), None)
