"""Gives an argument of a call another value, whether it is written there, missing, or in a mapping."""

from __future__ import annotations

import ast

from skyline.rewrite.blocks import replace
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.keyword import add_keyword
from skyline.rewrite.refusal import refusal
from skyline.source.arguments import passed
from skyline.source.edit import TextEdit
from skyline.source.knob import KnobKind
from skyline.source.mapping import holds
from skyline.source.origin import Frame, Route
from skyline.source.program import Module
from skyline.source.syntax import offsets_of, text_of


def set_argument(
    context: RewriteContext,
    module: Module,
    call: ast.Call,
    name: str,
    text: str,
    *,
    position: int | None = None,
) -> tuple[TextEdit, ...]:
    """``name=text`` in a call, ``position`` being its place among the arguments given without names.

    A literal that is there is changed in its place. Refused where the value is decided when the script runs, or
    where a mapping that is spread into the call sets it or may set it.
    """
    given = passed(call, name, position)
    if given.value is not None:
        return set_literal(module, given.value, name, text)
    frame, route = Frame(module, module.scope(call)), Route(KnobKind.CALL_ARGUMENT, name)
    for mapping in given.mappings:
        held = holds(context.resolver, mapping, frame, name, route)
        if held is not False:
            message = f"`**{text_of(mapping)}` {'sets' if held else 'may set'} `{name}`"
            raise refusal(message, module, call, hint="Change it there.")
    if not call.args and not call.keywords:
        _, end = offsets_of(module.source, call)
        return (module.source.edit(module.source.span(end - 1, end - 1), f"{name}={text}"),)
    return add_keyword(module.source, call, f"{name}={text}")


def set_literal(module: Module, node: ast.expr, name: str, text: str) -> tuple[TextEdit, ...]:
    """Another literal in place of one, none where it is the same; refused where the value is not a literal."""
    if not isinstance(node, ast.Constant):
        message = f"`{name}={text_of(node)}` is decided when the script runs"
        raise refusal(message, module, node, hint=f"Make it {text} there.")
    wanted = ast.literal_eval(text)
    if node.value == wanted and type(node.value) is type(wanted):
        return ()
    return replace(module, node, text)
