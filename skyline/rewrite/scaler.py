"""Adds a gradient scaler to a training loop: before the loop, and around backward, clipping and step."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.blocks import (
    insert_after,
    insert_before,
    replace,
    statement_of,
    suite_of,
    wrap_expression,
)
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.imports import Usable, free_name, usable
from skyline.rewrite.sites.iteration import Iteration
from skyline.rewrite.sites.passes import ForwardSite, StepSite, step
from skyline.rewrite.unwrapping import without_call, without_statements
from skyline.source.program import Module
from skyline.source.text import Function, TextEdit, dotted, last_name, offsets_of, text_of

_CLIPPING = {"clip_grad_norm_", "clip_grad_value_"}
_FIRST_GENERAL = (2, 3)
"""The first version of PyTorch with ``torch.amp.GradScaler`` for any device."""


def scaled(
    context: RewriteContext, site: ForwardSite, within: Iteration, device: Usable
) -> tuple[TextEdit, ...]:
    """The edits that scale the loss before its backward pass and the gradients back before the step."""
    stepping, module = step(context, within), site.module
    _check(site, stepping, within)
    name = free_name(module, "scaler", "grad")
    edits = list(wrap_expression(module, site.backward.loss, f"{name}.scale(", ")"))
    optimizer = text_of(stepping.optimizer)
    for region, call in within.nodes(ast.Call):
        if last_name(call.func) in _CLIPPING:
            if region.module is not module:
                message = "Gradients are clipped in another file than that of the backward pass"
                raise refusal(message, region.module, call)
            clipping = statement_of(module, call)
            if suite_of(module, clipping) is not suite_of(module, stepping.statement):
                raise refusal("Gradients are clipped in another block than that of the step", module, call)
            edits += insert_before(module, clipping, f"{name}.unscale_({optimizer})")
    edits += replace(module, stepping.call, f"{name}.step({optimizer})")
    edits += insert_after(module, stepping.statement, f"{name}.update()")
    return (*_made(context, site, stepping, name, device), *edits)


def _check(site: ForwardSite, stepping: StepSite, within: Iteration) -> None:
    where, line = stepping.region.module.path, stepping.call.lineno
    if stepping.has_closure:
        raise RewriteRefused(
            "The optimizer steps with a closure, which no scaler takes", file=where, line=line
        )
    if stepping.region.node is not site.backward.region.node:
        message = "The backward pass and the step are not in the same function"
        raise RewriteRefused(message, file=where, line=line)
    if not isinstance(stepping.statement, ast.Expr) or stepping.statement.value is not stepping.call:
        message = f"The result of `{text_of(stepping.call)}` is used"
        raise RewriteRefused(message, file=where, line=line)
    if site.backward.call.args or site.backward.driver is not None or not dotted(stepping.optimizer):
        message = f"`{text_of(site.backward.call)}` is more than a plain backward pass"
        raise RewriteRefused(message, file=where, line=site.backward.call.lineno)
    for region, node in within.nodes(ast.Attribute):
        parent = region.module.parents.get(node)
        called = isinstance(parent, ast.Call) and parent.func is node
        if node.attr == "grad" and not called:
            message = f"`{text_of(node)}` is used in the loop, where it would be scaled"
            raise refusal(message, region.module, node)


def _made(
    context: RewriteContext, site: ForwardSite, stepping: StepSite, name: str, device: Usable
) -> tuple[TextEdit, ...]:
    """Makes the scaler where it outlives the epochs: before the outermost loop, or at the file's top level."""
    module = site.module
    before = _outermost_loop(context, module, stepping.region.node)
    kind = device.text
    if before is None:
        chain = [stepping.statement, *module.around(stepping.statement)]
        before = next(each for each in reversed(chain) if isinstance(each, ast.stmt))
        kind = f'"{context.profile.environment.device.kind}"' if not kind.startswith('"') else kind
    version = tuple(int(part) for part in context.profile.environment.torch.split(".")[:2] if part.isdigit())
    if version and version < _FIRST_GENERAL:
        made = usable(module, "torch.cuda.amp:GradScaler", before)
        return (*made.edits, *insert_before(module, before, f"{name} = {made.text}()"))
    made = usable(module, "torch.amp.GradScaler", before)
    return (*made.edits, *insert_before(module, before, f"{name} = {made.text}({kind})"))


def _outermost_loop(context: RewriteContext, module: Module, node: ast.AST) -> ast.stmt | None:
    """The outermost loop around the training loop, if its file or function is entered only once."""
    if isinstance(node, Function):
        return None
    found: ast.AST = node
    for around in module.around(node):
        if isinstance(around, Function):
            # A function that is called in a loop, or that takes the optimizer, is called once per epoch.
            given = {
                each.arg for each in (*around.args.posonlyargs, *around.args.args, *around.args.kwonlyargs)
            }
            if given & {"optimizer", "optim", "opt", "epoch"} or _in_loop(context, around):
                return None
            return _as_statement(found)
        if isinstance(around, ast.For | ast.AsyncFor | ast.While):
            found = around
    return _as_statement(found)


def _in_loop(context: RewriteContext, function: Function) -> bool:
    return any(
        isinstance(around, ast.For | ast.AsyncFor | ast.While)
        for module, call in context.program.calls_of(function.name)
        for around in module.around(call)
    )


def _as_statement(node: ast.AST) -> ast.stmt | None:
    return node if isinstance(node, ast.stmt) else None


_MAKERS = ("GradScaler",)
_ATOMS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)


def unscaled(module: Module, scaler: str) -> tuple[TextEdit, ...]:
    """Removes the scaler of this name; refused if it does more than scale, step and update."""
    edits: list[TextEdit] = []
    gone: list[ast.stmt] = []
    for node in module.nodes:
        if not isinstance(node, ast.Name | ast.Attribute) or dotted(node) != scaler:
            continue
        parent = module.parents.get(node)
        if isinstance(node.ctx, ast.Store):
            gone.append(_maker(module, node))
            continue
        call = module.parents.get(parent) if isinstance(parent, ast.Attribute) else None
        if not isinstance(parent, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not parent:
            raise _also_used(module, node)
        statement = module.parents.get(call)
        given = call.args[0] if len(call.args) == 1 and not call.keywords else None
        match parent.attr:
            case "scale" if given is not None:
                edits += _plain_loss(module, call, given)
            case "step" if given is not None and dotted(given):
                edits += replace(module, call, f"{text_of(given)}.step()")
            case "unscale_" | "update" if isinstance(statement, ast.Expr):
                gone.append(statement)
            case _:
                raise _also_used(module, call)
    return (*edits, *without_statements(module, gone))


def _plain_loss(module: Module, call: ast.Call, given: ast.expr) -> tuple[TextEdit, ...]:
    if isinstance(given, _ATOMS):
        return without_call(module, call, given)
    # The expression needs the brackets of the call around it.
    start, end = offsets_of(module.source, call.func)
    return (module.source.edit(module.source.span(start, end), ""),)


def _maker(module: Module, target: ast.expr) -> ast.stmt:
    statement = module.parents.get(target)
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    plain = isinstance(value, ast.Call) and dotted(value.func).rpartition(".")[2] in _MAKERS
    if not plain or (isinstance(statement, ast.Assign) and len(statement.targets) > 1):
        raise _also_used(module, target)
    assert isinstance(statement, ast.stmt)
    return statement


def _also_used(module: Module, node: ast.expr) -> RewriteRefused:
    message = f"`{text_of(node)}` uses the gradient scaler for more than scaling the loss and stepping"
    return refusal(message, module, node, hint="Remove it there first.")
