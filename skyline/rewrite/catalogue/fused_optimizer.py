"""Makes the optimizer update each tensor in one pass: ``fused=True``."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.keyword import add_keyword, keyword_of, replace_keyword, replace_value
from skyline.rewrite.sites.optimizer import optimizer_calls
from skyline.source.edit import TextEdit
from skyline.source.knob import KnobKind
from skyline.source.mapping import holds
from skyline.source.origin import Frame, Route
from skyline.source.program import Module
from skyline.source.syntax import text_of

NAME = "fused_optimizer"
_FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
"""The classes of torch.optim that take ``fused``."""


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """``fused=True`` in every optimizer that has a fused form; refused where one of them cannot be rewritten."""
    if value.lower() not in ("", "true", "1", "yes", "on"):
        raise RewriteRefused(f"{value!r} is not a value for fused_optimizer", hint="Give the name alone.")
    edits: list[TextEdit] = []
    for module, call in _constructors(context):
        edits += _fused(context, module, call)
    return tuple(edits)


def _constructors(context: RewriteContext) -> tuple[tuple[Module, ast.Call], ...]:
    found = optimizer_calls(context, _FUSED, lambda fact: not fact.options.get("fused"))
    if not found:
        names = ", ".join(sorted({fact.name for fact in context.profile.optimizers}))
        raise RewriteRefused(f"{names} has no fused form, or uses it already", file=context.profile.script)
    return found


def _fused(context: RewriteContext, module: Module, call: ast.Call) -> tuple[TextEdit, ...]:
    where, line = module.path, call.lineno
    fused = keyword_of(call, "fused")
    if fused is not None:
        if not isinstance(fused.value, ast.Constant):
            message = f"`fused={text_of(fused.value)}` is decided when the script runs"
            raise RewriteRefused(message, file=where, line=line)
        foreach = keyword_of(call, "foreach")
        if foreach is not None and not _is_off(foreach.value):
            message = f"`foreach={text_of(foreach.value)}` excludes fused=True"
            raise RewriteRefused(message, file=where, line=line, hint="Remove it first.")
        return () if fused.value.value is True else (replace_value(module.source, fused.value, "True"),)
    given = keyword_of(call, "differentiable")
    if given is not None and not _is_off(given.value):
        message = f"`differentiable={text_of(given.value)}` excludes fused=True"
        raise RewriteRefused(message, file=where, line=line)
    _check_mappings(context, module, call)
    foreach = keyword_of(call, "foreach")
    if foreach is not None:
        return (replace_keyword(module.source, foreach, "fused=True"),)
    return add_keyword(module.source, call, "fused=True")


def _check_mappings(context: RewriteContext, module: Module, call: ast.Call) -> None:
    frame = Frame(module, module.scope(call))
    route = Route(KnobKind.CALL_ARGUMENT, "fused")
    for mapping in (keyword.value for keyword in call.keywords if keyword.arg is None):
        for name in ("fused", "foreach", "differentiable"):
            held = holds(context.resolver, mapping, frame, name, route)
            if held is not False:
                verb = "sets" if held else "may set"
                message = f"`**{text_of(mapping)}` {verb} `{name}`"
                raise RewriteRefused(message, file=module.path, line=call.lineno, hint="Change it there.")


def _is_off(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (None, False)
