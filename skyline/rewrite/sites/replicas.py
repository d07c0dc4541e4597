"""The call that makes replicas of the model exchange gradients, or that passes its arguments on to it."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from skyline.errors import RewriteRefused
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.sites.iteration import framework
from skyline.source.arguments import calls_at, qualified_name
from skyline.source.program import Module

_CLASS = "DistributedDataParallel"
_BY_KEYWORD = 5
"""From this position on, the arguments differ between versions of PyTorch."""
_HANDED_ON = {
    ("accelerate", "DistributedDataParallelKwargs"): 0,
    ("lightning", "DDPStrategy"): _BY_KEYWORD,
    ("pytorch_lightning", "DDPStrategy"): _BY_KEYWORD,
    ("lightning_fabric", "DDPStrategy"): _BY_KEYWORD,
    ("ignite", "auto_model"): 2,
}
"""Calls that pass keyword arguments to the wrapper, by package and name, with their positional arguments."""
_ONLY_REPLICAS = {
    "bucket_cap_mb", "find_unused_parameters", "gradient_as_bucket_view", "static_graph", "broadcast_buffers",
    "process_group",
}  # fmt: skip
"""Arguments that only the wrapper takes: a call with one of them is made only with several ranks."""


def replicas_call(context: RewriteContext) -> tuple[Module, ast.Call]:
    """The call of ``DistributedDataParallel``; raises RewriteRefused if a library or several calls make it."""
    found = _wrapper_calls(context)
    if len(found) == 1:
        return _checked(*found[0], _BY_KEYWORD)
    used = framework(context)
    if not found and used is not None:
        raise refusal(f"{used.title} makes the replicas", used.module, used.call, hint=_hint(used.kind))
    count = "More than one call makes" if found else "No call makes"
    raise RewriteRefused(f"{count} a torch.nn.parallel.{_CLASS} by name", file=context.profile.script)


def replicas_arguments(context: RewriteContext) -> tuple[Module, ast.Call]:
    """The call whose arguments the wrapper gets: its own, or the call of a framework that passes them on.

    Raises:
        RewriteRefused: no such call, several, or one that is also made without replicas.
    """
    if not _wrapper_calls(context):
        handing = [
            (module, call, positions)
            for module, call in _calls(context)
            if (positions := _handed_on(module, call.func)) is not None
        ]
        if len(handing) == 1:
            module, call, positions = handing[0]
            name = ast.unparse(call.func)
            if name.endswith("auto_model") and not any(each.arg in _ONLY_REPLICAS for each in call.keywords):
                # With one process it passes its arguments to DataParallel, which does not know these.
                message = (
                    f"`{name}` may also be called where there is one process, which takes no such argument"
                )
                raise refusal(message, module, call)
            return _checked(module, call, positions)
        if handing:
            raise refusal(f"More than one call hands arguments on to {_CLASS}", handing[1][0], handing[1][1])
    return replicas_call(context)


def _wrapper_calls(context: RewriteContext) -> list[tuple[Module, ast.Call]]:
    """Every call of the wrapper; of several, only the one that ran if it is known.

    Raises:
        RewriteRefused: the line that ran has changed.
    """
    fact = context.profile.parallel
    if fact is not None and fact.created_line is not None:
        module, line = context.place(fact.created_line)
        calls = calls_at(module, line, lambda callee: _is_wrapper(module, callee))
        if len(calls) == 1:
            return [(module, calls[0])]
    return [(module, call) for module, call in _calls(context) if _is_wrapper(module, call.func)]


def _calls(context: RewriteContext) -> Iterator[tuple[Module, ast.Call]]:
    """The calls in files that ran: a framework's sources may lie next to the script while another copy runs."""
    ran = {os.path.realpath(source.path) for source in context.profile.sources}
    for module, call in context.program.nodes_of(ast.Call):
        if module is context.program.script or not ran or os.path.realpath(module.path) in ran:
            yield module, call


def _checked(module: Module, call: ast.Call, positions: int) -> tuple[Module, ast.Call]:
    if len(call.args) > positions or any(isinstance(each, ast.Starred) for each in call.args):
        name = _CLASS if _is_wrapper(module, call.func) else ast.unparse(call.func)
        message = f"The arguments of {name} are given without their names, and differ between versions"
        raise refusal(message, module, call, hint="Name them.")
    return module, call


def _is_wrapper(module: Module, callee: ast.expr) -> bool:
    package, _, last = qualified_name(module, callee).rpartition(".")
    return last == _CLASS and package.startswith("torch.nn")


def _handed_on(module: Module, callee: ast.expr) -> int | None:
    """The number of positional arguments that such a call may have. None for any other callee."""
    name = qualified_name(module, callee)
    return _HANDED_ON.get((name.partition(".")[0], name.rpartition(".")[2]))


def _hint(kind: str) -> str:
    if kind == "accelerate":
        return "Give it to Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(…)])."
    if kind == "transformers":
        return "TrainingArguments has ddp_bucket_cap_mb and ddp_find_unused_parameters."
    return "Give it to the DDPStrategy of the trainer: strategy=DDPStrategy(…)."
