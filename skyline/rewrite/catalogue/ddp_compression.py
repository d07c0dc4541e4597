"""Exchanges gradients in 16 bits: registers a communication hook of PyTorch's own."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.blocks import insert_after, statement_of
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.imports import usable
from skyline.rewrite.sites.replicas import replicas_call
from skyline.source.edit import TextEdit
from skyline.source.program import Module
from skyline.source.syntax import dotted

NAME = "ddp_compression"
_HOOKS = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks"
_REGISTER = "register_comm_hook"


def snippet(value: str) -> str:
    """Two lines behind the one that wraps the model."""
    hook = _hook(value)
    return f"from {_HOOKS} import {hook}\n\nmodel.{_REGISTER}(None, {hook})\n"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """``model.register_comm_hook(None, …)`` behind the statement that wraps the model."""
    hook = _hook(value)
    fact = context.profile.parallel
    if hook.startswith("bf16") and fact is not None and fact.backend != "nccl":
        raise RewriteRefused(
            f"PyTorch exchanges gradients in bfloat16 over NCCL only, and this job uses {fact.backend}",
            file=context.profile.script,
            hint=f"With {fact.backend}: {NAME}=fp16.",
        )
    module, call = replicas_call(context)
    registered = [
        (where, each)
        for where, each in context.program.nodes_of(ast.Call)
        if isinstance(each.func, ast.Attribute) and each.func.attr == _REGISTER
    ]
    for where, each in registered:
        if len(each.args) > 1 and dotted(each.args[1]).rpartition(".")[2] == hook:
            return ()
        message = "A communication hook is registered already"
        raise RewriteRefused(
            message, file=where.path, line=each.lineno, hint="A model has one: replace it there."
        )
    name = _name_of(module, call)
    statement = statement_of(module, call)
    found = usable(module, f"{_HOOKS}:{hook}", statement, behind=True)
    return (*found.edits, *insert_after(module, statement, f"{name}.{_REGISTER}(None, {found.text})"))


def _name_of(module: Module, call: ast.Call) -> str:
    """What the wrapped model is called: the only target of the assignment that the call is the value of."""
    statement = module.parents.get(call)
    target: ast.expr | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    if target is None or not dotted(target):
        message = "The wrapped model is not assigned to a name where it is made"
        raise RewriteRefused(message, file=module.path, line=call.lineno)
    return dotted(target)


def _hook(value: str) -> str:
    if value not in ("fp16", "bf16"):
        raise RewriteRefused(f"{value!r} is not a value for {NAME}", hint="Give fp16, or with NCCL bf16.")
    return f"{value}_compress_hook"
