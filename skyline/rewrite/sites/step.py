"""Where the optimizer steps, and where gradients are cleared."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from skyline.errors import RewriteRefused
from skyline.rewrite.blocks import statement_of
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.refusal import refusal
from skyline.rewrite.sites.iteration import Iteration, Region, iteration
from skyline.source.batch_names import words
from skyline.source.calls import torch_optimizer
from skyline.source.syntax import last_name
from skyline.source.training_loop import OTHER_STEPPERS

_OPTIMIZER_WORDS = {"optimizer", "optimizers", "optim", "opt", "scaler", "solver", "sgd", "adam", "adamw"}


@dataclass(frozen=True, slots=True, eq=False)
class StepSite:
    """``optimizer.step()`` or ``optimizer.zero_grad()`` in an iteration.

    ``optimizer`` is the object stepped; ``scaler`` the gradient scaler of ``scaler.step(optimizer)``, None without.
    """

    region: Region
    call: ast.Call
    statement: ast.stmt
    optimizer: ast.expr
    scaler: ast.expr | None = None

    @property
    def has_closure(self) -> bool:
        """True if the step evaluates the loss by itself, through a function that it is given."""
        given = len(self.call.args) + len(self.call.keywords)
        return given > (0 if self.scaler is None else 1)


def steps(context: RewriteContext, within: Iteration | None = None) -> tuple[StepSite, ...]:
    """Every step of an optimizer in an iteration, in the order of the text; maybe none."""
    found: list[StepSite] = []
    made = _optimizer_names(context)
    for region, call in (within or iteration(context)).nodes(ast.Call):
        if last_name(call.func) not in ("step", "optimizer_step") or not isinstance(call.func, ast.Attribute):
            continue
        owner = call.func.value
        named = set(words(ast.unparse(owner)))
        if not _is_optimizer(region, call, named, ast.unparse(owner), made):
            continue
        statement = statement_of(region.module, call)
        if "scaler" in named and call.args:
            found.append(StepSite(region, call, statement, call.args[0], owner))
        else:
            found.append(StepSite(region, call, statement, owner))
    return tuple(found)


def _is_optimizer(region: Region, call: ast.Call, named: set[str], text: str, made: set[str]) -> bool:
    """True if what steps is an optimizer or its scaler: by its name, by what made it, or for want of anything else."""
    if text in made or named & _OPTIMIZER_WORDS:
        return not named & {"scheduler", "sched"}
    if named & OTHER_STEPPERS or text == "self":
        return False
    bare = isinstance(region.module.parents.get(call), ast.Expr)
    return bare and not call.args and not call.keywords


def _optimizer_names(context: RewriteContext) -> set[str]:
    """The targets to which results of optimizer constructors are assigned."""
    return {
        ast.unparse(target)
        for module, node in context.program.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Call) and torch_optimizer(module, node.value.func)
        for target in node.targets
    }


def step(context: RewriteContext, within: Iteration | None = None) -> StepSite:
    """The one step of an iteration; raises RewriteRefused where there is none, or more than one."""
    return _only(context, steps(context, within), "`optimizer.step()`")


def zero_grads(context: RewriteContext, within: Iteration | None = None) -> tuple[StepSite, ...]:
    """Every ``zero_grad()`` in an iteration, of optimizers and of modules; maybe none."""
    return tuple(
        StepSite(region, call, statement_of(region.module, call), call.func.value)
        for region, call in (within or iteration(context)).nodes(ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "zero_grad"
    )


def zero_grad(context: RewriteContext, within: Iteration | None = None) -> StepSite:
    """The one ``zero_grad()`` of an iteration; raises RewriteRefused where there is none, or more than one."""
    return _only(context, zero_grads(context, within), "`zero_grad()`")


def _only(context: RewriteContext, sites: tuple[StepSite, ...], what: str) -> StepSite:
    if not sites:
        raise RewriteRefused(f"No {what} was found in the training loop", file=context.profile.script)
    if len(sites) > 1:
        lines, first = ", ".join(str(site.call.lineno) for site in sites), next(iter(sites))
        raise refusal(f"The loop has more than one {what}, on lines {lines}", first.region.module, first.call)
    return next(iter(sites))
