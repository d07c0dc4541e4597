"""The call that makes replicas of the model join their gradients."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.sites.framework import framework
from skyline.source.calls import calls_at, qualified_name
from skyline.source.program import Module

_CLASS = "DistributedDataParallel"
_BY_KEYWORD = 5
"""From here on the places of its arguments differ between versions of PyTorch."""


def replicas_call(context: RewriteContext) -> tuple[Module, ast.Call]:
    """The call of ``DistributedDataParallel``; raises RewriteRefused where it is a library's, or one of many."""
    fact = context.profile.parallel
    if fact is not None and fact.created_line is not None:
        module, line = context.place(fact.created_line)
        calls = calls_at(module, line, lambda callee: _is_wrapper(module, callee))
        if len(calls) == 1:
            return _checked(module, calls[0])
    found = [
        (module, call)
        for module, call in context.program.nodes_of(ast.Call)
        if _is_wrapper(module, call.func)
    ]
    if len(found) == 1:
        return _checked(*found[0])
    used = framework(context)
    if not found and used is not None:
        raise RewriteRefused(
            f"{used.title} makes the replicas",
            file=used.module.path,
            line=used.call.lineno,
            hint=_hint(used.kind),
        )
    count = "More than one call makes" if found else "No call makes"
    raise RewriteRefused(f"{count} a torch.nn.parallel.{_CLASS} by name", file=context.profile.script)


def _checked(module: Module, call: ast.Call) -> tuple[Module, ast.Call]:
    if len(call.args) > _BY_KEYWORD or any(isinstance(each, ast.Starred) for each in call.args):
        message = f"The arguments of {_CLASS} are given without their names, and differ between versions"
        raise RewriteRefused(message, file=module.path, line=call.lineno, hint="Name them.")
    return module, call


def _is_wrapper(module: Module, callee: ast.expr) -> bool:
    package, _, last = qualified_name(module, callee).rpartition(".")
    return last == _CLASS and package.startswith("torch.nn")


def _hint(kind: str) -> str:
    if kind == "accelerate":
        return "Give it to Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(…)])."
    if kind == "transformers":
        return "TrainingArguments has ddp_bucket_cap_mb and ddp_find_unused_parameters."
    return "Give it to the DDPStrategy of the trainer: strategy=DDPStrategy(…)."
