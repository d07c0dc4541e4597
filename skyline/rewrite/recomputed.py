"""Finds blocks of the model that are recomputed in the backward pass, and restores their plain calls."""

from __future__ import annotations

import ast
from functools import partial

from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import replace
from skyline.rewrite.causal_mask import own_values
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.element import without_keyword
from skyline.rewrite.unwrapping import without_call
from skyline.source.arguments import qualified_name
from skyline.source.program import Module
from skyline.source.text import Function, TextEdit, last_name, offsets_of, text_of, tokens_of

_CHECKPOINT = "torch.utils.checkpoint.checkpoint"
_OWN = {"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"}
"""Arguments of ``checkpoint`` itself."""
_BLOCKS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointCall:
    """One ``checkpoint(block, x)``; ``choice`` is the ``… if index < 2 else block(x)`` around it, if any."""

    module: Module
    call: ast.Call
    choice: ast.IfExp | None

    @property
    def blocks(self) -> str:
        """The number of blocks, or ``all``."""
        match self.choice:
            case ast.IfExp(test=ast.Compare(ops=[ast.Lt()], comparators=[ast.Constant(value=int(number))])):
                return str(number)
            case _:
                return "all"


def checkpoint_calls(context: RewriteContext) -> list[CheckpointCall]:
    """Every such call of the program."""
    found: list[CheckpointCall] = []
    for module, call in context.program.nodes_of(ast.Call):
        if qualified_name(module, call.func) == _CHECKPOINT and call.args:
            around = module.parents.get(call)
            choice = around if isinstance(around, ast.IfExp) and around.body is call else None
            if choice is not None and ast.unparse(choice.orelse) != ast.unparse(_plain(call)):
                choice = None  # any other choice is the script's own, and stays
            found.append(CheckpointCall(module, call, choice))
    return found


def without_checkpoints(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Calls the blocks plainly; refused if a condition of the script chooses between both ways."""
    calls = checkpoint_calls(context)
    for each in calls:
        _check(each)
    return context.in_turn(partial(_next, left=left) for left in range(len(calls), 0, -1))


def _check(site: CheckpointCall) -> None:
    module, call = site.module, site.call
    if not isinstance(call.args[0], _BLOCKS) or any(keyword.arg is None for keyword in call.keywords):
        message = f"`{text_of(call)}` computes more than a block again"
        raise refusal(message, module, call, hint="Call the block there by hand.")
    for around in module.around(call):
        if isinstance(around, Function):
            return
        if isinstance(around, ast.If) and around.orelse:
            message = f"`{text_of(around.test)}` decides which blocks are computed again"
            raise refusal(message, module, around, hint="Set the option that makes the condition false.")


def _plain(call: ast.Call) -> ast.Call:
    own = [keyword for keyword in call.keywords if keyword.arg not in _OWN]
    return ast.Call(call.args[0], call.args[1:], own)


def _next(context: RewriteContext, left: int) -> tuple[TextEdit, ...]:
    """Restores the first remaining call, with its loop."""
    found = checkpoint_calls(context)
    if len(found) != left:
        return ()
    site = found[0]
    loop = next((each for each in site.module.around(site.call) if isinstance(each, ast.For)), None)
    if loop is not None and _is_whole(site, loop):
        return _as_whole(site, loop)
    if site.choice is not None:
        header = _without_index(site, loop) if loop is not None else ()
        return (*header, *_without_choice(site.module, site.choice))
    own = [keyword.arg for keyword in site.call.keywords if keyword.arg in _OWN]
    return context.in_turn((*(partial(_without_own, name=str(name)) for name in own), _called_plainly))


def _without_own(context: RewriteContext, name: str) -> tuple[TextEdit, ...]:
    site = checkpoint_calls(context)[0]
    keyword = next(each for each in site.call.keywords if each.arg == name)
    return without_keyword(site.module, keyword)


def _called_plainly(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Turns ``checkpoint(block, x)`` into ``block(x)``; a line break behind the block stays."""
    site = checkpoint_calls(context)[0]
    source, call = site.module.source, site.call
    start, end = offsets_of(source, call)
    first, last = offsets_of(source, call.args[0])
    comma = tokens_of(source).after(last)
    assert comma is not None
    behind = comma.end if comma.text == "," else last
    following = tokens_of(source).after(behind)
    assert following is not None
    gap = source.text[behind : following.start]
    opening = "(" + (gap if gap.strip(" ") else "")
    if comma.text != ",":
        return (
            source.edit(source.span(start, first), ""),
            source.edit(source.span(last, end), "()"),
        )
    return (
        source.edit(source.span(start, first), ""),
        source.edit(source.span(last, following.start), opening),
    )


def _without_choice(module: Module, choice: ast.IfExp) -> tuple[TextEdit, ...]:
    """Replaces a choice by its alternative, without brackets that only the choice needed."""
    source, tokens = module.source, tokens_of(module.source)
    start, end = offsets_of(source, choice)
    begin, finish = offsets_of(source, choice.orelse)
    text = source.text[begin:finish]
    before, after = tokens.before(start), tokens.after(end)
    if before is not None and after is not None and (before.text, after.text) == ("(", ")"):
        owner = tokens.before(before.start)
        called = owner is not None and (owner.text[-1:].isalnum() or owner.text in (")", "]", "_"))
        keyword = owner is not None and owner.text in (
            "return",
            "in",
            "not",
            "and",
            "or",
            "if",
            "else",
            "yield",
        )
        if not called or keyword:
            start, end = before.start, after.end
    return (source.edit(source.span(start, end), text),)


def _without_index(site: CheckpointCall, loop: ast.For) -> tuple[TextEdit, ...]:
    """Writes ``for block in blocks`` if ``enumerate`` numbered the blocks for the choice alone."""
    module, choice = site.module, site.choice
    function = next((each for each in module.around(loop) if isinstance(each, Function)), module.tree)
    match loop.target, loop.iter, choice:
        case (
            ast.Tuple(elts=[ast.Name(id=index), block]),
            ast.Call(func=ast.Name(id="enumerate"), args=[blocks], keywords=[]),
            ast.IfExp(test=ast.Compare(left=ast.Name(id=compared))),
        ) if index == compared and "index" in index:
            reads = [
                each
                for each in ast.walk(function)
                if isinstance(each, ast.Name) and each.id == index and isinstance(each.ctx, ast.Load)
            ]
            if len(reads) > 1:
                return ()
            text = ast.unparse(block)
            target = replace(module, loop.target, text[1:-1] if isinstance(block, ast.Tuple) else text)
            assert isinstance(loop.iter, ast.Call)
            return (*target, *without_call(module, loop.iter, blocks))
        case _:
            return ()


def _is_whole(site: CheckpointCall, loop: ast.For) -> bool:
    """True if a loop only calls the blocks of an ``nn.Sequential`` one after another."""
    holder = _holder(loop)
    made = own_values(site.module, holder)
    if len(made) != 1 or not isinstance(made[0], ast.Call) or last_name(made[0].func) != "Sequential":
        return False
    value = site.choice or site.call
    match loop.body:
        case [ast.Assign(targets=[ast.Name(id=name)], value=given)] if given is value:
            rest = _plain(site.call).args
            return (
                len(rest) == 1
                and ast.unparse(rest[0]) == name
                and _block(loop) == ast.unparse(site.call.args[0])
            )
        case _:
            return False


def _as_whole(site: CheckpointCall, loop: ast.For) -> tuple[TextEdit, ...]:
    source = site.module.source
    start, _ = offsets_of(source, loop)
    _, end = offsets_of(source, loop.body[0])
    begin, finish = offsets_of(source, _holder(loop))
    name = ast.unparse(_plain(site.call).args[0])
    text = f"{name} = {source.text[begin:finish]}({name})"
    return (source.edit(source.span(start, end), text),)


def _holder(loop: ast.For) -> ast.expr:
    given = loop.iter
    if isinstance(given, ast.Call) and last_name(given.func) == "enumerate" and len(given.args) == 1:
        return given.args[0]
    return given


def _block(loop: ast.For) -> str:
    target = loop.target
    return ast.unparse(target.elts[-1] if isinstance(target, ast.Tuple) else target)
