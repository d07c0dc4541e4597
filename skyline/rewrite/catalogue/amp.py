"""Puts the forward pass and the loss under autocast, with a gradient scaler for float16."""

from __future__ import annotations

import ast
from functools import partial
from typing import Literal

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import set_argument
from skyline.rewrite.blocks import wrap
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.given_argument import without_argument
from skyline.rewrite.imports import usable
from skyline.rewrite.keyword import keyword_of
from skyline.rewrite.refusal import refusal
from skyline.rewrite.scaler import scaled, unscaled
from skyline.rewrite.sites.autocast import (
    autocasts,
    check_unconditional,
    chosen_elsewhere,
    format_that_ran,
)
from skyline.rewrite.sites.backward import backwards
from skyline.rewrite.sites.device import device_type
from skyline.rewrite.sites.forward import ForwardSite, forward, inside_autocast
from skyline.rewrite.sites.framework import Framework, framework
from skyline.rewrite.sites.iteration import ROUTE, Iteration, iteration
from skyline.rewrite.unwrapping import without_item
from skyline.source.calls import qualified_name
from skyline.source.edit import TextEdit
from skyline.source.origin import Value
from skyline.source.program import Module
from skyline.source.syntax import dotted, last_name, text_of

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
_OFF = {"mixed_precision": '"no"', "precision": '"32-true"'}
"""What the switches of frameworks are without a number format, where that is not False."""
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
        raise refusal(f"{owner.title} takes its number format from outside the program", module, call)
    if owner.kind == "transformers":
        other = "fp16" if precision == "bf16" else "bf16"
        given = next((each for each in call.keywords if each.arg == other), None)
        if given is not None and not (isinstance(given.value, ast.Constant) and not given.value.value):
            message = f"`{other}={text_of(given.value)}` is given to {owner.title}"
            raise refusal(message, module, call, hint="Remove it first.")
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
        switch = next((each.value for each in call.keywords if each.arg == "enabled"), None)
        settings = context.profile.settings
        if same and switch is not None and settings is not None and settings.autocast == "":
            message = f"`enabled={text_of(switch)}` switched autocast off when the script was profiled"
            hint = "Switch it on by its option, or change the option's default."
            raise refusal(message, module, call, hint=hint)
        if same and (precision == "bf16" or site.backward.scaler is not None):
            return True
    for region, node in within.nodes(ast.Call, ast.With):
        if isinstance(node, ast.Call) and "autocast" in last_name(node.func):
            message = f"`{text_of(node)}` is there already, for another number format or part"
            raise refusal(message, region.module, node)
        for item in node.items if isinstance(node, ast.With) else ():
            if isinstance(item.context_expr, ast.Name | ast.Attribute):
                for found in context.resolver.meant(item.context_expr, region.frame, ROUTE):
                    if isinstance(found, Value) and "autocast" in ast.unparse(found.node):
                        message = (
                            f"`with {text_of(item.context_expr)}:` is an autocast that is chosen elsewhere"
                        )
                        raise refusal(message, region.module, node, hint="Change it there.")
    if context.profile.settings is not None and context.profile.settings.autocast and context.as_profiled():
        message = f"The forward pass ran under autocast ({context.profile.settings.autocast}) already"
        raise refusal(message, module, site.statements[0])
    return False


def _check(site: ForwardSite, within: Iteration, precision: Precision) -> None:
    module = site.module
    if site.backward.scaler is not None:
        raise refusal("A gradient scaler is in use already", module, site.backward.call)
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
                raise refusal(message, each, node, hint=hint)
    if precision == "bf16":
        for region, call in within.nodes(ast.Call):
            names = {child.id for child in ast.walk(call.func) if isinstance(child, ast.Name)}
            if last_name(call.func) == "numpy" and region.module is module and names & made:
                message = f"`{text_of(call)}` would be bfloat16, which NumPy does not have"
                raise refusal(message, module, call, hint="Add .float() there.")


def present(context: RewriteContext) -> str | None:
    """The number format of the autocast that the training runs under."""
    owner = framework(context)
    if owner is not None and (switch := _switch(owner)) is not None:
        return switch[1]
    if owner is not None and owner.owns_loop:
        return format_that_ran(context)
    sites = autocasts(iteration(context))
    if any(site.switch is None or isinstance(site.switch, ast.Constant) for site in sites):
        return sites[0].number_format
    return format_that_ran(context)


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Forward pass and loss one level further out, without autocast and without a gradient scaler."""
    owner = framework(context)
    if owner is not None and (switch := _switch(owner)) is not None:
        return without_argument(
            context, owner.module, owner.call, switch[0], off=_OFF.get(switch[0], "False")
        )
    within = iteration(context)
    sites = autocasts(within)
    check_unconditional(sites)
    if not sites:
        raise _not_found(context, within)
    scalers = _scalers(within, context)
    steps = [partial(_unscaled, path=module.path, scaler=name) for module, name in scalers]
    return context.in_turn((*steps, *(_without_block for _ in sites)))


def _switch(owner: Framework) -> tuple[str, str] | None:
    """The argument of a framework that sets a number format, and which."""
    if not owner.takes_switches:
        return None
    for name in ("bf16", "fp16", "mixed_precision", "precision"):
        given = keyword_of(owner.call, name)
        value = given.value.value if given is not None and isinstance(given.value, ast.Constant) else None
        if value is True:
            return name, name
        if isinstance(value, str) and value.partition("-")[0] in ("bf16", "fp16", "16"):
            return name, "bf16" if value.startswith("bf16") else "fp16"
    return None


def _not_found(context: RewriteContext, within: Iteration) -> RewriteRefused:
    chosen = chosen_elsewhere(context, within)
    if chosen is not None:
        module, block, _ = chosen
        message = f"`with {text_of(block.items[0].context_expr)}:` is an autocast that is chosen elsewhere"
        return refusal(message, module, block, hint="Choose nullcontext() there.")
    return refusal(
        "The forward pass ran under autocast, and no `with torch.autocast(…)` was found in the training loop",
        within.module,
        within.loop,
        hint="Search for autocast, and take it out by hand.",
    )


def _scalers(within: Iteration, context: RewriteContext) -> list[tuple[Module, str]]:
    """The scalers of the backward passes, each once, by file and name."""
    found: dict[tuple[str, str], tuple[Module, str]] = {}
    for site in backwards(context, within):
        if site.scaler is not None:
            name, module = dotted(site.scaler), site.region.module
            if not name:
                message = f"`{text_of(site.scaler)}` is a gradient scaler without a name"
                raise refusal(message, module, site.call, hint="Give it one first.")
            found[module.path, name] = module, name
    return list(found.values())


def _unscaled(context: RewriteContext, path: str, scaler: str) -> tuple[TextEdit, ...]:
    return unscaled(context.module(path), scaler)


def _without_block(context: RewriteContext) -> tuple[TextEdit, ...]:
    site = autocasts(iteration(context))[-1]
    return without_item(site.module, site.block, site.item)
