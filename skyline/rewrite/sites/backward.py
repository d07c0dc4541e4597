"""Where the backward pass is started: ``loss.backward()`` and its relatives."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from skyline.errors import RewriteRefused
from skyline.rewrite.blocks import statement_of
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.refusal import refusal
from skyline.rewrite.sites.iteration import Iteration, Region, iteration
from skyline.source.calls import qualified_name
from skyline.source.syntax import last_name

_DRIVERS = {"accelerator", "fabric", "engine", "model_engine", "manager", "booster"}


@dataclass(frozen=True, slots=True, eq=False)
class BackwardSite:
    """One call that starts the backward pass of ``loss``.

    ``scaler`` is the gradient scaler of ``scaler.scale(loss).backward()``, ``driver`` the object of a framework that
    is asked to do it, as in ``accelerator.backward(loss)``; both are None for plain tensors.
    """

    region: Region
    call: ast.Call
    statement: ast.stmt
    loss: ast.expr
    scaler: ast.expr | None = None
    driver: ast.expr | None = None


def backwards(context: RewriteContext, within: Iteration | None = None) -> tuple[BackwardSite, ...]:
    """Every call in an iteration that starts a backward pass, in the order of the text; maybe none."""
    sites = (_site(region, call) for region, call in (within or iteration(context)).nodes(ast.Call))
    return tuple(site for site in sites if site is not None)


def backward(context: RewriteContext, within: Iteration | None = None) -> BackwardSite:
    """The one backward pass of an iteration; raises RewriteRefused where there is none, or more than one."""
    sites = backwards(context, within)
    if not sites:
        raise RewriteRefused("No `backward()` was found in the training loop", file=context.profile.script)
    if len(sites) > 1:
        lines, first = ", ".join(str(site.call.lineno) for site in sites), next(iter(sites))
        message = f"The loop has more than one `backward()`, on lines {lines}"
        raise refusal(message, first.region.module, first.call)
    return next(iter(sites))


def _site(region: Region, call: ast.Call) -> BackwardSite | None:
    if last_name(call.func) not in ("backward", "manual_backward") or not isinstance(
        call.func, ast.Attribute
    ):
        return None
    statement, owner = statement_of(region.module, call), call.func.value
    if qualified_name(region.module, call.func) == "torch.autograd.backward":
        return BackwardSite(region, call, statement, call.args[0]) if call.args else None
    if isinstance(owner, ast.Call) and last_name(owner.func) == "scale" and owner.args:
        scaler = owner.func.value if isinstance(owner.func, ast.Attribute) else None
        return BackwardSite(region, call, statement, owner.args[0], scaler=scaler)
    driven = call.func.attr == "manual_backward" or last_name(owner).lower().lstrip("_") in _DRIVERS
    if driven and call.args:
        return BackwardSite(region, call, statement, call.args[0], driver=owner)
    return BackwardSite(region, call, statement, owner)
