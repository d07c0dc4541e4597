"""Lets cuDNN try its algorithms and keep the fastest for each shape."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import set_literal
from skyline.rewrite.context import RewriteContext, check_switched_on, refusal
from skyline.rewrite.sites.start import assignments_of, at_start, calls_of, without_assignments
from skyline.source.program import Module
from skyline.source.text import TextEdit, text_of

NAME = "cudnn_benchmark"
_SWITCH = "torch.backends.cudnn.benchmark"
_DETERMINISTIC = "torch.backends.cudnn.deterministic"


def snippet(value: str) -> str:
    """One line near the start of the script."""
    return "torch.backends.cudnn.benchmark = True\n"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Changes the assignment that the script makes already, or adds one behind its imports."""
    check_switched_on(NAME, value)
    _check_determinism(context)
    edits: list[TextEdit] = []
    made = assignments_of(context, _SWITCH)
    for module, statement in made:
        if len(statement.targets) > 1:
            raise refusal(f"`{text_of(statement)}` sets more than this", module, statement)
        change = set_literal(module, statement.value, _SWITCH, "True")
        if change and _seeds_beside(context, module, statement):
            message = "It is switched off where the seeds are set, for the same results in every run"
            raise refusal(message, module, statement)
        edits += change
    return tuple(edits) if made else at_start(context, _SWITCH, "{} = True")


def _check_determinism(context: RewriteContext) -> None:
    reason = "The script asks for the same results in every run, which cuDNN's trials would prevent"
    if context.profile.settings is not None and context.profile.settings.deterministic:
        raise RewriteRefused(reason, file=context.profile.script)
    for module, call in calls_of(context, "torch.use_deterministic_algorithms"):
        if not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value is False):
            raise refusal(reason, module, call)
    for module, statement in assignments_of(context, _DETERMINISTIC):
        if not (isinstance(statement.value, ast.Constant) and statement.value.value is False):
            raise refusal(reason, module, statement)


def _seeds_beside(context: RewriteContext, module: Module, statement: ast.stmt) -> bool:
    scope = module.scope(statement)
    return any(
        where is module and module.scope(call) is scope
        for where, call in calls_of(context, "torch.manual_seed")
    )


def present(context: RewriteContext) -> str | None:
    """``on`` if the script switches it on."""
    on = any(_is_on(statement) for _, statement in assignments_of(context, _SWITCH))
    return "on" if on else None


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Removes the statements that switch it on: it is off by default."""
    made = [pair for pair in assignments_of(context, _SWITCH) if _is_on(pair[1])]
    return without_assignments(made, "False")


def _is_on(statement: ast.Assign) -> bool:
    return isinstance(statement.value, ast.Constant) and statement.value.value is True
