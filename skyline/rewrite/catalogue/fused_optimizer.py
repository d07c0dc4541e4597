"""Makes the optimizer update each tensor in one pass, ``fused=True``, or all tensors at once, ``foreach=True``."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import add_keyword, is_off, keyword_of, replace_value, without_argument
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.element import without_keyword
from skyline.rewrite.sites.passes import optimizer_calls
from skyline.source.knob import KnobKind
from skyline.source.mapping import holds
from skyline.source.origin import Frame, Route
from skyline.source.program import Module
from skyline.source.text import TextEdit, text_of

NAME = "fused_optimizer"
_FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
"""The classes of torch.optim that take ``fused``."""
_FOREACH = (*_FUSED, "RMSprop", "Adadelta", "NAdam", "RAdam", "Adamax", "Rprop", "ASGD")
"""The classes that take ``foreach``."""
_OPTIONS = ("fused", "foreach")
_VALUES = {"": "fused", "true": "fused", "1": "fused", "yes": "fused", "on": "fused", "fused": "fused"}


def snippet(value: str) -> str:
    """One more argument of the optimizer."""
    return f"optimizer = torch.optim.AdamW(model.parameters(), {_option(value)}=True)\n"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Sets the option in every optimizer that has such a form; refused if one of them cannot be rewritten."""
    option = _option(value)
    edits: list[TextEdit] = []
    for module, call in _constructors(context, option):
        edits += _optioned(context, module, call, option)
    return tuple(edits)


def _option(value: str) -> str:
    option = "foreach" if value.lower() == "foreach" else _VALUES.get(value.lower())
    if option is None:
        raise RewriteRefused(
            f"{value!r} is not a value for fused_optimizer",
            hint="Give the name without a value, or with foreach.",
        )
    return option


def _constructors(context: RewriteContext, option: str) -> tuple[tuple[Module, ast.Call], ...]:
    classes = _FUSED if option == "fused" else _FOREACH
    found = optimizer_calls(
        context, classes, lambda fact: not fact.options.get("fused") and not fact.options.get(option)
    )
    if not found:
        names = ", ".join(sorted({fact.name for fact in context.profile.optimizers}))
        raise RewriteRefused(f"{names} has no {option} form, or uses it already", file=context.profile.script)
    return found


def _optioned(context: RewriteContext, module: Module, call: ast.Call, option: str) -> tuple[TextEdit, ...]:
    where, line = module.path, call.lineno
    other = "foreach" if option == "fused" else "fused"
    given, excluding = keyword_of(call, option), keyword_of(call, other)
    if given is not None:
        if not isinstance(given.value, ast.Constant):
            message = f"`{option}={text_of(given.value)}` is computed when the script runs"
            raise RewriteRefused(message, file=where, line=line)
        if excluding is not None and not is_off(excluding.value):
            message = f"`{other}={text_of(excluding.value)}` excludes {option}=True"
            raise RewriteRefused(message, file=where, line=line, hint="Remove it first.")
        return () if given.value.value is True else (replace_value(module.source, given.value, "True"),)
    differentiable = keyword_of(call, "differentiable")
    if differentiable is not None and not is_off(differentiable.value):
        message = f"`differentiable={text_of(differentiable.value)}` excludes {option}=True"
        raise RewriteRefused(message, file=where, line=line)
    _check_mappings(context, module, call)
    if excluding is not None:
        return (replace_value(module.source, excluding, f"{option}=True"),)
    return add_keyword(module.source, call, f"{option}=True")


def _check_mappings(context: RewriteContext, module: Module, call: ast.Call) -> None:
    frame = Frame(module, module.scope(call))
    route = Route(KnobKind.CALL_ARGUMENT, "fused")
    for mapping in (keyword.value for keyword in call.keywords if keyword.arg is None):
        for name in ("fused", "foreach", "differentiable"):
            held = holds(context.resolver, mapping, frame, name, route)
            if held is not False:
                verb = "sets" if held else "may set"
                message = f"`**{text_of(mapping)}` {verb} `{name}`"
                raise refusal(message, module, call, hint="Change it there.")


def present(context: RewriteContext) -> str | None:
    """``fused`` or ``foreach``: the form that an optimizer is given or used in the run."""
    for option in _OPTIONS:
        if any(_is_on(call, option) for _, call in optimizer_calls(context, _FOREACH)):
            return option
    ran = [option for option in _OPTIONS for fact in context.profile.optimizers if fact.options.get(option)]
    return ran[0] if ran and context.as_profiled() else None


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Removes the option from every optimizer; refused if a variable or a mapping sets it for several uses."""
    edits: list[TextEdit] = []
    for module, call in optimizer_calls(context, _FOREACH):
        for option in _OPTIONS:
            given = keyword_of(call, option)
            if given is not None and _is_on(call, option):
                edits += without_keyword(module, given)
            elif any(fact.options.get(option) for fact in context.profile.optimizers) and given is None:
                edits += _without_mapped(context, module, call, option)
            elif given is not None and not isinstance(given.value, ast.Constant):
                message = f"`{option}={text_of(given.value)}` is computed when the script runs"
                raise refusal(message, module, given.value, hint="Set it to False there.")
    return tuple(edits)


def _is_on(call: ast.Call, option: str) -> bool:
    given = keyword_of(call, option)
    return given is not None and isinstance(given.value, ast.Constant) and given.value.value is True


def _without_mapped(
    context: RewriteContext, module: Module, call: ast.Call, option: str
) -> tuple[TextEdit, ...]:
    mappings = [keyword.value for keyword in call.keywords if keyword.arg is None]
    if not mappings:
        return ()
    try:
        return without_argument(context, module, call, option, off="False")
    except RewriteRefused as refused:
        raise refusal(
            f"`**{text_of(mappings[0])}` sets `{option}`", module, call, hint="Remove it there."
        ) from refused
