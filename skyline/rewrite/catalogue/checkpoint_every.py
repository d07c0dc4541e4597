"""Sets how often a training saves: the ``N`` of ``if step % N == 0: torch.save(…)``.

No what-if has this name, since iterations take as long as before. ``skyline estimate`` gives the cost.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import PurePath

from skyline.errors import RewriteRefused
from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.predict.checkpoint_interval import Failures, saving
from skyline.rewrite.argument import set_literal
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.sites.given import literal_behind
from skyline.rewrite.sites.iteration import Iteration, iteration
from skyline.source.arguments import call_sites, qualified_name
from skyline.source.program import Module
from skyline.source.text import Function, TextEdit, last_name, text_of

NAME = "checkpoint_every"
_VALUE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>min|h)?")
_UNITS_MS = {"min": 60e3, "h": 3600e3}
_BESIDE = (
    *("print", "info", "write", "state_dict", "item", "join", "format", "str", "int", "dict", "len"),
    *("mkdir", "makedirs", "exists", "eval", "train", "cpu", "cuda", "to", "half"),
    *("save", "remove", "unlink", "append", "time", "items", "getattr", "hasattr", "isinstance"),
)
"""Calls that may accompany a save: file names, the saved state, its device and model, and messages."""
_DEPTH = 4
"""The greatest number of functions between a condition and the save that it leads to."""


def snippet(value: str) -> str:
    """A save every N steps."""
    every = value if value.isdecimal() else "N"
    return (
        f"if step % {every} == 0:\n"
        '    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, PATH)\n'
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Period:
    """A condition ``counter % modulus == 0`` around saves; ``leads`` are the saves or calls that reach them."""

    module: Module
    condition: ast.If
    counter: ast.expr
    modulus: ast.expr
    leads: tuple[ast.AST, ...]


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Changes the number of steps between saves in the source.

    If the counter counts batches, the number is multiplied by the batches that the script accumulates per step.
    """
    every = _steps(context, value)
    saves = [
        (module, call)
        for module, call in context.program.nodes_of(ast.Call)
        if qualified_name(module, call.func) == "torch.save"
    ]
    if not saves:
        raise RewriteRefused("The program does not call torch.save", file=context.profile.script)
    within = iteration(context)
    inside = {id(node) for region in within.regions for each in region.node.body for node in ast.walk(each)}
    periods: dict[int, _Period] = {}
    for module, call in saves:
        for one in _periods(context, module, call, 0):
            before = periods.get(id(one.condition))
            periods[id(one.condition)] = (
                one if before is None else replace(one, leads=(*before.leads, *one.leads))
            )
    known = list(periods.values())
    chosen = [one for one in known if id(one.condition) in inside or _seen_by_step(context, one)]
    if not chosen:
        raise _not_by_step(within, saves, known)
    if len(chosen) > 1:
        lines = ", ".join(str(one.condition.lineno) for one in chosen)
        message = f"More than one condition decides about saving: lines {lines}"
        raise refusal(message, chosen[0].module, chosen[0].condition)
    period = chosen[0]
    _check_alone(period)
    counted = context.profile.batch.micro_batches if _counts_batches(within, period) else 1
    return set_literal(*_literal(context, period), NAME, str(every * counted))


def _counts_batches(within: Iteration, period: _Period) -> bool:
    """True if the counter counts batches and the loop, which accumulates gradients, steps in some passes."""
    loop = within.loop
    if period.module is not within.module or not isinstance(loop, ast.For | ast.AsyncFor):
        return False
    names = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
    if not any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(period.counter)):
        return False
    return any(
        isinstance(each, ast.Call) and last_name(each.func) == "step"
        for condition in loop.body
        if isinstance(condition, ast.If)
        for each in ast.walk(condition)
    )


def _literal(context: RewriteContext, period: _Period) -> tuple[Module, ast.expr]:
    if isinstance(period.modulus, ast.Name | ast.Attribute | ast.Subscript):
        return literal_behind(context, period.module, period.modulus, NAME, period.condition.test)
    return period.module, period.modulus


def _seen_by_step(context: RewriteContext, period: _Period) -> bool:
    """True if the recorded training saved under this condition, at the interval that it states.

    The source does not show the step in callbacks, which a trainer calls.
    """
    training = context.profile.training
    found = None if training is None else saving(training, Failures())
    if found is None or found.line is None or found.every is None:
        return False
    try:
        module, line = context.place(found.line)
        _, literal = _literal(context, period)
    except RewriteRefused:
        return False
    end = period.condition.end_lineno or period.condition.lineno
    counted = isinstance(literal, ast.Constant) and literal.value == round(found.every)
    return module is period.module and period.condition.lineno <= line <= end and counted


def _check_alone(period: _Period) -> None:
    """Refuses a condition that controls more than the save, since evaluation would become as frequent."""
    for statement in period.condition.body:
        if any(each is one for each in ast.walk(statement) for one in period.leads):
            continue
        for call in ast.walk(statement):
            if isinstance(call, ast.Call) and last_name(call.func) not in _BESIDE:
                message = f"The condition decides about more than saving: `{text_of(call)}`"
                raise refusal(message, period.module, call, hint="Give the save a condition of its own.")


def _steps(context: RewriteContext, value: str) -> int:
    """The steps between two saves. A time is converted to iterations; no value means the best interval."""
    profile = context.profile
    if not value:
        found = saving(profile.training, Failures()) if profile.training is not None else None
        if found is None:
            message = "The time of a save is not known"
            hint = f"Run: skyline estimate {PurePath(profile.script).name} --epochs N. Or give steps: {NAME}=1000."
            raise RewriteRefused(message, file=profile.script, hint=hint)
        return found.best
    match = _VALUE.fullmatch(value)
    if (
        match is None
        or not float(match["number"])
        or (match["unit"] is None and not match["number"].isdecimal())
    ):
        raise RewriteRefused(
            f"{value!r} is not a value for {NAME}", hint="Give steps, or a time: 1000, 30min, 2h."
        )
    if match["unit"] is None:
        return int(value)
    return max(1, round(float(match["number"]) * _UNITS_MS[match["unit"]] / median(profile.times.steps_ms)))


def _periods(context: RewriteContext, module: Module, node: ast.AST, depth: int) -> list[_Period]:
    """The nearest such condition around a node; without one, around the calls of its function."""
    for around in module.around(node):
        if isinstance(around, ast.If) and any(node is each for one in around.body for each in ast.walk(one)):
            moduli = [found for each in ast.walk(around.test) if (found := _modulus(each)) is not None]
            if len(moduli) > 1:
                raise refusal(f"`{text_of(around.test)}` has more than one interval", module, around)
            if moduli:
                return [_Period(module, around, *moduli[0], (node,))]
        if isinstance(around, Function):
            if depth >= _DEPTH:
                return []
            sites = call_sites(context.program, module, around)
            return [one for site in sites for one in _periods(context, site.module, site.call, depth + 1)]
    return []


def _modulus(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """The ``x`` and ``n`` of ``x % n == 0`` and of ``not x % n``."""
    match node:
        case ast.Compare(
            left=ast.BinOp(left=counter, op=ast.Mod(), right=right),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=0)],
        ):
            return counter, right
        case ast.UnaryOp(op=ast.Not(), operand=ast.BinOp(left=counter, op=ast.Mod(), right=right)):
            return counter, right
        case _:
            return None


def _not_by_step(
    within: Iteration, saves: list[tuple[Module, ast.Call]], periods: list[_Period]
) -> RewriteRefused:
    """Saves outside the loop over batches: at ends of epochs, or of the training."""
    hint = "For an interval in steps, save inside the loop over batches."
    if periods:
        first = periods[0]
        test, loops = text_of(first.condition.test), (ast.For, ast.AsyncFor, ast.While)
        around = [each for each in first.module.around(first.condition) if isinstance(each, loops)]
        if any(within.loop in ast.walk(each) for each in around):
            message = f"`{test}` counts epochs: the script saves between them, not by steps"
            return refusal(message, first.module, first.condition, hint=hint)
        seen = "skyline estimate observes how often the script saves; ask again after it."
        return refusal(f"`{test}` is not known to count steps", first.module, first.condition, hint=seen)
    module, call = saves[0]
    lines = ", ".join(str(each.lineno) for _, each in saves)
    message = f"No condition on the step decides about saving (lines {lines}): it saves after an epoch or at its end"
    return refusal(message, module, call, hint=hint)
