"""Puts the forward pass and the loss under autocast, with a gradient scaler for float16."""

from __future__ import annotations

import ast
import os
from functools import partial
from typing import Literal

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import keyword_of, set_argument, without_argument
from skyline.rewrite.blocks import wrap
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.full_precision import (
    in_full,
    kept_in_full,
    unsafe_losses,
    without_full_precision,
)
from skyline.rewrite.imports import Usable, usable
from skyline.rewrite.scaler import scaled, unscaled
from skyline.rewrite.sites.autocast import AutocastSite, autocasts
from skyline.rewrite.sites.iteration import ROUTE, Framework, Iteration, Region, framework, iteration
from skyline.rewrite.sites.passes import (
    ForwardSite,
    backwards,
    forward,
    forwards,
    inside_autocast,
)
from skyline.rewrite.sites.transfer import transfers
from skyline.rewrite.unwrapping import without_item
from skyline.source.arguments import qualified_name
from skyline.source.origin import Value
from skyline.source.program import Module
from skyline.source.text import TextEdit, dotted, last_name, names_in, text_of
from skyline.trace.trial import failed_in


def device_type(context: RewriteContext, region: Region, within: Iteration, at: ast.AST) -> Usable:
    """The kind of device (``"cuda"``, ``"cpu"``) as an expression at a place in a region.

    It uses the script's own name for the device if the region moves its data to it or knows that name.
    Otherwise it is the kind of the run's device. A move to another kind, as under ``if args.cuda:``, did not
    run.
    """
    kind = context.profile.environment.device.kind
    names: list[ast.expr] = []
    for site in transfers(context, within):
        if site.destination is None or isinstance(site.destination, ast.Constant):
            return Usable(f'"{kind}"')
        if dotted(site.destination) and site.region is region:
            names.append(site.destination)
    for node in names:
        if _is_known(region, node):
            if _is_device(context, region, node):
                return Usable(f"{ast.unparse(node)}.type")
            made = usable(region.module, "torch.device", at)
            return Usable(f"{made.text}({ast.unparse(node)}).type", made.edits)
    return Usable(f'"{kind}"')


def _is_known(region: Region, node: ast.expr) -> bool:
    """True if the name is bound before the iteration starts."""
    first = dotted(node).partition(".")[0]
    inside = set(names_in(region.node.body, ast.Store))
    return first not in inside and region.module.scope(node).lookup(first) is not None


def _is_device(context: RewriteContext, region: Region, node: ast.expr) -> bool:
    found = context.resolver.meant(node, region.frame, ROUTE)
    return bool(found) and all(
        isinstance(each, Value)
        and isinstance(each.node, ast.Call)
        and qualified_name(each.frame.module, each.node.func) == "torch.device"
        for each in found
    )


_OF_PROFILE = {"bfloat16": "bf16", "float16": "fp16"}


def _check_unconditional(sites: tuple[AutocastSite, ...]) -> None:
    """Refuses autocast that an option of the script switches."""
    for site in sites:
        if site.switch is not None and not isinstance(site.switch, ast.Constant):
            message = f"`enabled={text_of(site.switch)}` decides whether autocast is on"
            raise refusal(message, site.module, site.call, hint="Set it to False by its option.")


def _chosen_elsewhere(context: RewriteContext, within: Iteration, hint: str) -> RewriteRefused | None:
    """The refusal of the first ``with ctx:`` whose name leads to an autocast; None without one."""
    for region, block in within.nodes(ast.With):
        for item in block.items:
            if isinstance(item.context_expr, ast.Name | ast.Attribute):
                for found in context.resolver.meant(item.context_expr, region.frame, ROUTE):
                    if isinstance(found, Value) and "autocast" in ast.unparse(found.node):
                        message = (
                            f"`with {text_of(item.context_expr)}:` is an autocast that is chosen elsewhere"
                        )
                        return refusal(message, region.module, block, hint=hint)
    return None


def format_that_ran(context: RewriteContext) -> str | None:
    """The number format recorded in the run. None if none was recorded, or if the text has changed since."""
    settings = context.profile.settings
    told = settings.autocast if settings is not None else None
    return _OF_PROFILE.get(told or "", told or None) if context.as_profiled() else None


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
"""Values that switch a framework's number format off, where the value is not False."""
_CONVERTING = ("float", "double", "half", "int", "long", "bool", "argmax", "argmin", "argsort")
"""Methods whose result is not in bfloat16."""
_DTYPES = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}


def snippet(value: str) -> str:
    """The change in a loop that is written plainly."""
    if _VALUES.get(value.lower()) == "fp16":
        return (
            "scaler = torch.amp.GradScaler(device.type)  # once, before the loop\n\n"
            "with torch.autocast(device_type=inputs.device.type, dtype=torch.float16):\n"
            "    output = model(inputs)\n"
            "    loss = criterion(output, targets)\n"
            "scaler.scale(loss).backward()\n"
            "scaler.step(optimizer)\n"
            "scaler.update()\n"
        )
    return (
        "with torch.autocast(device_type=inputs.device.type, dtype=torch.bfloat16):\n"
        "    output = model(inputs)\n"
        "    loss = criterion(output, targets)\n"
        "loss.backward()\n"
    )


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Puts ``with torch.autocast(…):`` around forward pass and loss, or sets the framework's switch."""
    precision = _VALUES.get(value.lower())
    if precision is None:
        raise RewriteRefused(f"{value!r} is not a number format for amp", hint="Give bf16 or fp16.")
    _check_trial(context, precision)
    owner = framework(context)
    if owner is not None:
        return _switched(context, owner, precision)
    within = iteration(context)
    there = [_is_there(context, site, within, precision) for site in _sites(context, within, precision)]
    if all(there):
        return ()
    if not unsafe_losses(within):
        # Without a second step, the changed text is not read again.
        return _under_autocast(context, precision)
    return context.in_turn((partial(_under_autocast, precision=precision), kept_in_full))


def _check_trial(context: RewriteContext, precision: Precision) -> None:
    """Refuses if the script raised an exception when it was tried under this autocast."""
    failed = failed_in(context.profile.failed_trials, _DTYPES[precision].rpartition(".")[2])
    if failed is not None and context.as_profiled():
        file, line = failed.place.file, failed.place.line
        place = f"{os.path.basename(file)}:{line}"
        message = f"Tried under autocast, {place} raised {failed.message}"
        hint = "Keep the tensor there in float32, as with .float(), and profile again."
        raise RewriteRefused(message, file=file, line=line, hint=hint)


def _sites(context: RewriteContext, within: Iteration, precision: Precision) -> tuple[ForwardSite, ...]:
    # One scaler serves several optimizers, but is updated once for all: that is left to the person.
    return (forward(context, within),) if precision == "fp16" else forwards(context, within)


def _under_autocast(context: RewriteContext, precision: Precision) -> tuple[TextEdit, ...]:
    within = iteration(context)
    edits: list[TextEdit] = []
    for site in _sites(context, within, precision):
        _check(site, within, precision)
        module, first = site.module, site.statements[0]
        autocast = usable(module, "torch.autocast", first)
        dtype = usable(module, _DTYPES[precision], first)
        device = device_type(context, site.region, within, first)
        header = f"with {autocast.text}(device_type={device.text}, dtype={dtype.text}):"
        edits += [*autocast.edits, *dtype.edits, *device.edits, *wrap(module, site.statements, header)]
        edits += scaled(context, site, within, device) if precision == "fp16" else ()
    return tuple(dict.fromkeys(edits))


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
    """True if exactly this autocast is there already; raises RewriteRefused if another one is."""
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
    for region, call in within.nodes(ast.Call):
        if "autocast" in last_name(call.func):
            message = f"`{text_of(call)}` is there already, for another number format or part"
            raise refusal(message, region.module, call)
    if (refused := _chosen_elsewhere(context, within, "Change it there.")) is not None:
        raise refused
    if context.profile.settings is not None and context.profile.settings.autocast and context.as_profiled():
        message = f"The forward pass ran under autocast ({context.profile.settings.autocast}) already"
        raise refusal(message, module, site.statements[0])
    return False


def _check(site: ForwardSite, within: Iteration, precision: Precision) -> None:
    module = site.module
    if site.backward.scaler is not None:
        raise refusal("A gradient scaler is in use already", module, site.backward.call)
    made = set(names_in(site.statements, ast.Store)) - {site.loss}
    if precision == "bf16":
        for region, call in within.nodes(ast.Call):
            names = {child.id for child in ast.walk(call.func) if isinstance(child, ast.Name)}
            narrow = last_name(call.func) == "numpy" and not _converts(call.func)
            if narrow and region.module is module and names & made:
                message = f"`{text_of(call)}` would be bfloat16, which NumPy does not have"
                raise refusal(message, module, call, hint="Add .float() there.")


def _converts(value: ast.expr) -> bool:
    """True if a value is a comparison, or the result of a method that gives another number format than bfloat16."""
    match value:
        case ast.Compare():
            return True
        case ast.Call(func=ast.Attribute(attr=name)) if name in _CONVERTING:
            return True
        case (
            ast.Call(func=ast.Attribute(value=inner))
            | ast.Attribute(value=inner)
            | ast.Subscript(value=inner)
        ):
            return _converts(inner)
        case _:
            return False


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
    """Moves forward pass and loss one level out, and removes autocast and the gradient scaler."""
    owner = framework(context)
    if owner is not None and (switch := _switch(owner)) is not None:
        return without_argument(
            context, owner.module, owner.call, switch[0], off=_OFF.get(switch[0], "False")
        )
    within = iteration(context)
    sites = autocasts(within)
    _check_unconditional(sites)
    if not sites:
        raise _not_found(context, within)
    scalers = _scalers(within, context)
    steps = [partial(_unscaled, path=module.path, scaler=name) for module, name in scalers]
    return context.in_turn(
        (*steps, *(_without_block for _ in sites), *(without_full_precision for _ in in_full(within)))
    )


def _switch(owner: Framework) -> tuple[str, str] | None:
    """The argument of a framework that sets a number format, and the format."""
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
    return _chosen_elsewhere(context, within, "Choose nullcontext() there.") or refusal(
        "The forward pass ran under autocast, and no `with torch.autocast(…)` was found in the training loop",
        within.module,
        within.loop,
        hint="Search for autocast, and remove it by hand.",
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
