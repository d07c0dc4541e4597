"""Gives embeddings sparse gradients: ``sparse=True``."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import as_value, literal_given, set_argument, without_argument
from skyline.rewrite.context import RewriteContext, check_switched_on, refusal
from skyline.rewrite.sites.layers import layer_calls, layer_class
from skyline.rewrite.sites.passes import optimizer_calls
from skyline.source.arguments import passed, torch_optimizer
from skyline.source.program import Module
from skyline.source.text import TextEdit, literal_key, text_of
from skyline.whatif.cost.embedding_rows import sparse_tables

NAME = "sparse_embedding"
_CLASSES = ("Embedding", "EmbeddingBag")
_PLACE = 6
"""The place of ``sparse`` among the arguments of either class."""
_DECAY_PLACE = {"SGD": 4, "Adagrad": 3}
"""The place of ``weight_decay`` among the arguments of the optimizers that take sparse gradients."""


def snippet(value: str) -> str:
    """The argument, for either class."""
    return "nn.Embedding(..., sparse=True)  # or nn.EmbeddingBag(..., sparse=True)\n"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Adds ``sparse=True`` where embeddings are made; refused if the optimizer takes no sparse gradients."""
    check_switched_on(NAME, value)
    layers = [table.module for table in sparse_tables(context.profile)]
    if not layers:
        raise RewriteRefused(
            "No embedding is known to gain from sparse gradients",
            file=context.profile.script,
        )
    for module, call in optimizer_calls(context):
        _check_optimizer(module, call)
    _check_groups(context)
    edits: list[TextEdit] = []
    for module, call, _ in layer_calls(context, layers):
        edits += set_argument(context, module, call, "sparse", "True", position=_PLACE)
    return tuple(edits)


def _check_optimizer(module: Module, call: ast.Call) -> None:
    name = torch_optimizer(module, call.func)
    if name not in _DECAY_PLACE:
        raise refusal(
            f"{name} takes no sparse gradients",
            module,
            call,
            hint="SGD and Adagrad do. SparseAdam trains differently and needs a second optimizer for all else.",
        )
    given = {
        "weight_decay": passed(call, "weight_decay", _DECAY_PLACE[name]).value,
        "momentum": passed(call, "momentum", 2).value if name == "SGD" else None,
        "fused": passed(call, "fused", None).value,
    }
    for argument, node in given.items():
        if node is not None and not _is_nothing(node):
            message = f"`{argument}={text_of(node)}` and sparse gradients exclude each other"
            raise refusal(message, module, node)
    for keyword in call.keywords:
        if keyword.arg is None:
            message = f"`**{text_of(keyword.value)}` may set a weight decay, which sparse gradients exclude"
            raise refusal(message, module, call)


def _check_groups(context: RewriteContext) -> None:
    """Refuses a group of parameters with its own decay or momentum."""
    for module, node in context.program.nodes_of(ast.Dict, ast.Subscript):
        named: list[tuple[str, ast.expr]] = []
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            named = [(str(key.value), value) for key, value in pairs if isinstance(key, ast.Constant)]
        elif isinstance(node.ctx, ast.Store):
            named = [(literal_key(node) or "", node)]
        for name, value in named:
            if name in ("weight_decay", "momentum") and not _is_nothing(value):
                message = f"`{name}` may be set for the embedding here, which sparse gradients exclude"
                raise refusal(message, module, value)


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def present(context: RewriteContext) -> str | None:
    """``on`` if an embedding is made with ``sparse=True``."""
    return "on" if _sparse_calls(context) else None


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Removes ``sparse=True`` from embeddings; refused if an optimizer takes only sparse gradients."""
    for module, call in context.program.nodes_of(ast.Call):
        if torch_optimizer(module, call.func) == "SparseAdam":
            message = "SparseAdam takes sparse gradients only"
            raise refusal(message, module, call, hint="Use another optimizer there first.")
    return tuple(
        edit
        for module, call in _sparse_calls(context)
        for edit in without_argument(context, module, call, "sparse", off="False", position=_PLACE)
    )


def _sparse_calls(context: RewriteContext) -> list[tuple[Module, ast.Call]]:
    return [
        (module, call)
        for module, call in context.program.nodes_of(ast.Call)
        if layer_class(module, call.func) in _CLASSES
        and as_value(literal_given(context, module, call, "sparse", _PLACE)) is not None
    ]
