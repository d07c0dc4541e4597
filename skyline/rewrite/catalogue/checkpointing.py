"""Computes blocks of the model again in the backward pass, where the model calls them."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused, UsageError
from skyline.rewrite.argument import set_argument
from skyline.rewrite.blocks import insert_after
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.element import without_keyword
from skyline.rewrite.recomputed import checkpoint_calls, without_checkpoints
from skyline.rewrite.sites.block_calls import block_calls
from skyline.rewrite.sites.iteration import framework, framework_switch
from skyline.rewrite.sites.model import ModelSite, model
from skyline.rewrite.unwrapping import without_statements
from skyline.source.arguments import qualified_name
from skyline.source.program import Module
from skyline.source.text import TextEdit
from skyline.whatif.baseline import baseline
from skyline.whatif.blocks import Blocks, repeated_blocks
from skyline.whatif.catalogue.memory.checkpointing import number_of_blocks

NAME = "checkpointing"
ORDER = 30
_KEYWORD = "gradient_checkpointing"
_SWITCHES = {"transformers": "gradient_checkpointing_enable", "timm": "set_grad_checkpointing"}
"""The method that switches it on, for packages whose models have one."""


def snippet(value: str) -> str:
    """The change where a model calls its blocks in a loop."""
    return (
        "from torch.utils.checkpoint import checkpoint\n\n"
        "for block in self.blocks:\n"
        "    x = checkpoint(block, x, use_reentrant=False)  # was: x = block(x)\n"
    )


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Writes ``checkpoint(block, x, use_reentrant=False)`` for the first blocks, or sets a library's switch."""
    if value in ("", "all") and (switched := _switched(context)) is not None:
        return switched
    groups = repeated_blocks(context.profile, context.profile.trace.modules)
    if not groups:
        raise RewriteRefused("No blocks of the model that repeat were seen", file=context.profile.script)
    left = _count(context, value, groups)
    edits: list[TextEdit] = []
    for blocks in groups:
        members = [path for path in blocks.paths if path not in blocks.checkpointed]
        chosen = members[:left]
        left -= len(chosen)
        if chosen:
            calls = block_calls(context, blocks)
            edits += calls.checkpointed(context, len(chosen) + len(blocks.checkpointed))
    return _distinct(edits)


def _count(context: RewriteContext, value: str, groups: tuple[Blocks, ...]) -> int:
    paths = tuple(path for blocks in groups for path in blocks.paths if path not in blocks.checkpointed)
    if value in ("", "all") or value.isdigit():
        return min(int(value), len(paths)) if value.isdigit() else len(paths)
    start = baseline(context.profile)
    try:
        count, short = number_of_blocks(value, paths, start.memory, start)
    except UsageError as error:
        raise RewriteRefused(
            str(error), hint="Give all, a number of blocks, or a target for the peak memory."
        ) from error
    if short:
        raise RewriteRefused(short, file=context.profile.script)
    return count


def _switched(context: RewriteContext) -> tuple[TextEdit, ...] | None:
    """The edits that switch it on by an option or a method. None if the model has no such switch."""
    owner = framework(context)
    if owner is not None and owner.kind == "transformers":
        if not owner.takes_switches:
            message = f"{owner.title} takes its options from outside the program"
            raise refusal(message, owner.module, owner.call)
        return set_argument(context, owner.module, owner.call, _KEYWORD, "True")
    try:
        site = model(context)
    except RewriteRefused:
        return None
    method = _SWITCHES.get(_made_by(site).partition(".")[0])
    if method is None:
        return None
    for module, call in context.program.nodes_of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == method and module is site.module:
            return ()
    return insert_after(site.module, site.statement, f"{site.text}.{method}()")


def _made_by(site: ModelSite) -> str:
    """The dotted name of the call that made the model; empty if the assignments to its name hide it."""
    for node in site.module.nodes:
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == site.text for target in node.targets):
            value = node.value
            while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
                name = qualified_name(site.module, value.func)
                if name.partition(".")[0] in _SWITCHES:
                    return name
                value = value.func.value
            if isinstance(value, ast.Call):
                name = qualified_name(site.module, value.func)
                if name.partition(".")[0] in _SWITCHES:
                    return name
    return ""


def _distinct(edits: list[TextEdit]) -> tuple[TextEdit, ...]:
    """The edits without duplicates of an import that several places need."""
    found: list[TextEdit] = []
    for edit in edits:
        if "import" not in edit.new_text or edit not in found:
            found.append(edit)
    return tuple(found)


def present(context: RewriteContext) -> str | None:
    """The number of blocks that the script recomputes, or ``all``."""
    if framework_switch(context, _KEYWORD) is not None or _switching_calls(context):
        return "all"
    calls = checkpoint_calls(context)
    return calls[0].blocks if calls else None


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Calls the blocks without ``checkpoint``, or removes the switch of their library."""
    edits: list[TextEdit] = list(without_checkpoints(context))
    if (switch := framework_switch(context, _KEYWORD)) is not None:
        edits += without_keyword(switch[0].module, switch[1])
    for module, statement in _switching_calls(context):
        edits += without_statements(module, [statement])
    return tuple(edits)


def _switching_calls(context: RewriteContext) -> list[tuple[Module, ast.stmt]]:
    """The statements that switch it on by a method of the model."""
    return [
        (module, statement)
        for module, statement in context.program.nodes_of(ast.Expr)
        if isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Attribute)
        and statement.value.func.attr in _SWITCHES.values()
        and not any(isinstance(each, ast.Constant) and each.value is False for each in statement.value.args)
    ]
