"""Losses that keep full precision under autocast: binary cross entropy of probabilities."""

from __future__ import annotations

import ast

from skyline.rewrite.blocks import statement_of, wrap, wrap_expression
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.imports import usable
from skyline.rewrite.sites.autocast import AutocastSite, autocast_blocks, autocasts
from skyline.rewrite.sites.iteration import ROUTE, Iteration, Region, iteration
from skyline.rewrite.sites.passes import model_calls
from skyline.rewrite.unwrapping import without_item
from skyline.source.origin import Value
from skyline.source.program import Module
from skyline.source.text import TextEdit, dotted, last_name, offsets_of, text_of

_UNSAFE = {"binary_cross_entropy", "BCELoss"}
"""Functions that autocast refuses on GPUs, where 16 bits may give infinite logarithms."""


def unsafe_losses(within: Iteration) -> list[tuple[Module, ast.Call]]:
    """The calls of such functions, and of their classes, in the files of the training."""
    return [
        (region.module, node)
        for region in within.regions
        for node in region.module.nodes
        if isinstance(node, ast.Call) and last_name(node.func) in _UNSAFE
    ]


def kept_in_full(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Puts losses that autocast refuses on GPUs into a block without autocast, on inputs in full precision."""
    within = iteration(context)
    if all(site.device == "cpu" for site in autocasts(within)):
        return ()
    named = unsafe_losses(within)
    if not named:
        return ()
    edits: list[TextEdit] = []
    for region, call in within.nodes(ast.Call):
        if not _is_unsafe(context, region, call):
            continue
        module, statement = region.module, statement_of(region.module, call)
        given = next(iter(call.args), None)
        if given is None or not dotted(given) or model_calls(context, region, statement):
            break
        autocast = usable(module, "torch.autocast", statement)
        header = f"with {autocast.text}(device_type={dotted(given)}.device.type, enabled=False):"
        edits += [*autocast.edits, *wrap(module, [statement], header)]
        edits += wrap_expression(module, given, "", ".float()")
    else:
        if edits:
            return tuple(dict.fromkeys(edits))
    module, node = named[0]
    message = f"`{text_of(node.func)}` does not work under autocast on GPUs"
    hint = "Use binary_cross_entropy_with_logits on what the model gives before its sigmoid."
    raise refusal(message, module, node, hint=hint)


def _is_unsafe(context: RewriteContext, region: Region, call: ast.Call) -> bool:
    """True for a call of such a function, or of an object that is made as one."""
    if last_name(call.func) in _UNSAFE:
        return last_name(call.func).islower()
    return any(
        isinstance(found, Value)
        and isinstance(found.node, ast.Call)
        and last_name(found.node.func) in _UNSAFE
        for found in context.resolver.meant(call.func, region.frame, ROUTE)
    )


def in_full(within: Iteration) -> list[tuple[AutocastSite, list[ast.Call]]]:
    """The blocks that keep a loss in full precision, with their ``x.float()``."""
    found: list[tuple[AutocastSite, list[ast.Call]]] = []
    for site in autocast_blocks(within):
        device = next((each.value for each in site.call.keywords if each.arg == "device_type"), None)
        name = dotted(device).removesuffix(".device.type") if device is not None else ""
        calls = [
            node
            for node in ast.walk(site.block)
            if isinstance(node, ast.Call) and name and dotted(node.func) == f"{name}.float"
        ]
        if site.is_off and calls:
            found.append((site, calls))
    return found


def without_full_precision(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Removes the last of these blocks, with its ``.float()``."""
    site, calls = in_full(iteration(context))[-1]
    source, edits = site.module.source, [*without_item(site.module, site.block, site.item)]
    for call in calls:
        _, end = offsets_of(source, call)
        edits.append(source.edit(source.span(end - len(".float()"), end), ""))
    return tuple(edits)
