"""Puts the forward pass and the loss under autocast, with a gradient scaler for float16."""

from __future__ import annotations

import ast
from typing import Literal

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import set_argument
from skyline.rewrite.blocks import wrap
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.imports import usable
from skyline.rewrite.scaler import scaled
from skyline.rewrite.sites.device import device_type
from skyline.rewrite.sites.forward import ForwardSite, forward, inside_autocast
from skyline.rewrite.sites.framework import Framework, framework
from skyline.rewrite.sites.iteration import ROUTE, Iteration, iteration
from skyline.source.calls import qualified_name
from skyline.source.edit import TextEdit
from skyline.source.origin import Value
from skyline.source.syntax import last_name, text_of

NAME = "amp"
ORDER = 40

Precision = Literal["bf16", "fp16"]
_VALUES: dict[str, Precision] = {
    "": "bf16",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp16": "fp16",
    "float16": "fp16",
}
_DTYPES = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}
_UNSAFE = {"binary_cross_entropy", "BCELoss"}
"""What autocast refuses on GPUs; ``…_with_logits`` stands in for it."""


def snippet(value: str) -> str:
    """The change in a loop that is written plainly."""
    if _VALUES.get(value.lower()) == "fp16":
        return (
            'scaler = torch.amp.GradScaler("cuda")  # once, before the loop\n\n'
            'with torch.autocast(device_type="cuda", dtype=torch.float16):\n'
            "    output = model(inputs)\n"
            "    loss = criterion(output, targets)\n"
            "scaler.scale(loss).backward()\n"
            "scaler.step(optimizer)\n"
            "scaler.update()\n"
        )
    return (
        'with torch.autocast(device_type="cuda", dtype=torch.bfloat16):\n'
        "    output = model(inputs)\n"
        "    loss = criterion(output, targets)\n"
        "loss.backward()\n"
    )


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """``with torch.autocast(…):`` around forward pass and loss, or the switch of the framework that trains."""
    precision = _VALUES.get(value.lower())
    if precision is None:
        raise RewriteRefused(f"{value!r} is not a number format for amp", hint="Give bf16 or fp16.")
    owner = framework(context)
    if owner is not None:
        return _switched(context, owner, precision)
    within = iteration(context)
    site = forward(context, within)
    if _is_there(context, site, within, precision):
        return ()
    _check(site, within, precision)
    module, first = site.module, site.statements[0]
    autocast = usable(module, "torch.autocast", first)
    dtype = usable(module, _DTYPES[precision], first)
    device = device_type(context, site.region, within, first)
    header = f"with {autocast.text}(device_type={device.text}, dtype={dtype.text}):"
    edits = (*autocast.edits, *dtype.edits, *device.edits, *wrap(module, site.statements, header))
    return edits if precision == "bf16" else (*edits, *scaled(context, site, within, device))


def _switched(context: RewriteContext, owner: Framework, precision: Precision) -> tuple[TextEdit, ...]:
    module, call = owner.module, owner.call
    if not owner.takes_switches:
        message = f"{owner.title} takes its number format from outside the program"
        raise RewriteRefused(message, file=module.path, line=call.lineno)
    if owner.kind == "transformers":
        other = "fp16" if precision == "bf16" else "bf16"
        given = next((each for each in call.keywords if each.arg == other), None)
        if given is not None and not (isinstance(given.value, ast.Constant) and not given.value.value):
            message = f"`{other}={text_of(given.value)}` is given to {owner.title}"
            raise RewriteRefused(message, file=module.path, line=call.lineno, hint="Remove it first.")
        return set_argument(context, module, call, precision, "True")
    if owner.kind == "accelerate":
        return set_argument(context, module, call, "mixed_precision", f'"{precision}"')
    mixed = "bf16-mixed" if precision == "bf16" else "16-mixed"
    return set_argument(context, module, call, "precision", f'"{mixed}"')


def _is_there(context: RewriteContext, site: ForwardSite, within: Iteration, precision: Precision) -> bool:
    """Whether this very autocast is there already; raises RewriteRefused where another one is."""
    module = site.module
    around = [inside_autocast(module, statement) for statement in site.statements]
    if all(around) and around[0] is not None:
        call = next(
            item.context_expr
            for item in around[0].items
            if isinstance(item.context_expr, ast.Call) and "autocast" in last_name(item.context_expr.func)
        )
        given = next((each.value for each in call.keywords if each.arg == "dtype"), None)
        same = given is not None and qualified_name(module, given) == _DTYPES[precision]
        if same and (precision == "bf16" or site.backward.scaler is not None):
            return True
    for region, node in within.nodes(ast.Call, ast.With):
        if isinstance(node, ast.Call) and "autocast" in last_name(node.func):
            message = f"`{text_of(node)}` is there already, for another number format or part"
            raise RewriteRefused(message, file=region.module.path, line=node.lineno)
        for item in node.items if isinstance(node, ast.With) else ():
            if isinstance(item.context_expr, ast.Name | ast.Attribute):
                for found in context.resolver.meant(item.context_expr, region.frame, ROUTE):
                    if isinstance(found, Value) and "autocast" in ast.unparse(found.node):
                        message = (
                            f"`with {text_of(item.context_expr)}:` is an autocast that is chosen elsewhere"
                        )
                        raise RewriteRefused(
                            message, file=region.module.path, line=node.lineno, hint="Change it there."
                        )
    if context.profile.settings is not None and context.profile.settings.autocast and context.as_profiled():
        message = f"The forward pass ran under autocast ({context.profile.settings.autocast}) already"
        raise RewriteRefused(message, file=module.path, line=site.statements[0].lineno)
    return False


def _check(site: ForwardSite, within: Iteration, precision: Precision) -> None:
    module = site.module
    if site.backward.scaler is not None:
        message = "A gradient scaler is in use already"
        raise RewriteRefused(message, file=module.path, line=site.backward.call.lineno)
    made = {
        child.id
        for statement in site.statements
        for child in ast.walk(statement)
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)
    } - {site.loss}
    modules = {id(region.module): region.module for region in within.regions}
    for each in modules.values():
        for node in each.nodes:
            if isinstance(node, ast.Call) and last_name(node.func) in _UNSAFE:
                message = f"`{text_of(node.func)}` does not work under autocast on GPUs"
                hint = "Use binary_cross_entropy_with_logits on what the model gives before its sigmoid."
                raise RewriteRefused(message, file=each.path, line=node.lineno, hint=hint)
    if precision == "bf16":
        for region, call in within.nodes(ast.Call):
            names = {child.id for child in ast.walk(call.func) if isinstance(child, ast.Name)}
            if last_name(call.func) == "numpy" and region.module is module and names & made:
                message = f"`{text_of(call)}` would be bfloat16, which NumPy does not have"
                raise RewriteRefused(message, file=module.path, line=call.lineno, hint="Add .float() there.")
