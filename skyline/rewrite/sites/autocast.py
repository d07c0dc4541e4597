"""Where the training runs under autocast, and what decides its number format."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from skyline.rewrite.context import RewriteContext
from skyline.rewrite.refusal import refusal
from skyline.rewrite.sites.iteration import ROUTE, Iteration
from skyline.source.calls import qualified_name
from skyline.source.origin import Value
from skyline.source.program import Module
from skyline.source.syntax import last_name, text_of

_FORMATS = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.half": "fp16"}
_OF_PROFILE = {"bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True, slots=True, eq=False)
class AutocastSite:
    """One ``with torch.autocast(…)`` in, or around, the loop."""

    module: Module
    block: ast.With
    item: ast.withitem
    call: ast.Call

    @property
    def number_format(self) -> str:
        """``bf16`` or ``fp16``, as given or by default."""
        given = [each.value for each in self.call.keywords if each.arg == "dtype"]
        given += self.call.args[1:2]
        names = [qualified_name(self.module, each) for each in given]
        if names and names[0] in _FORMATS:
            return _FORMATS[names[0]]
        device = next((each.value for each in self.call.keywords if each.arg == "device_type"), None)
        device = device or (self.call.args[0] if self.call.args else None)
        on_cpu = isinstance(device, ast.Constant) and device.value == "cpu"
        return "bf16" if on_cpu or "cpu" in ast.unparse(self.call.func) else "fp16"

    @property
    def switch(self) -> ast.expr | None:
        """The argument ``enabled``, None where it is not given."""
        return next((each.value for each in self.call.keywords if each.arg == "enabled"), None)


def autocasts(within: Iteration) -> tuple[AutocastSite, ...]:
    """Every autocast block of the training that is not switched off for good, outermost first."""
    around = [
        (within.module, each) for each in within.module.around(within.loop) if isinstance(each, ast.With)
    ]
    inside = [(region.module, block) for region, block in within.nodes(ast.With)]
    found = [
        AutocastSite(module, block, item, item.context_expr)
        for module, block in (*reversed(around), *inside)
        for item in block.items
        if isinstance(item.context_expr, ast.Call) and "autocast" in last_name(item.context_expr.func)
    ]
    return tuple(site for site in found if not _is_off(site.switch))


def chosen_elsewhere(context: RewriteContext, within: Iteration) -> tuple[Module, ast.With, ast.expr] | None:
    """The first ``with ctx:`` whose name leads to an autocast, with the expression that makes it; None without one."""
    for region, block in within.nodes(ast.With):
        for item in block.items:
            if isinstance(item.context_expr, ast.Name | ast.Attribute):
                for found in context.resolver.meant(item.context_expr, region.frame, ROUTE):
                    if isinstance(found, Value) and "autocast" in ast.unparse(found.node):
                        return region.module, block, found.node
    return None


def format_that_ran(context: RewriteContext) -> str | None:
    """The number format that the run told of; None where it told of none, or the text changed since."""
    settings = context.profile.settings
    told = settings.autocast if settings is not None else None
    return _OF_PROFILE.get(told or "", told or None) if context.as_profiled() else None


def check_unconditional(sites: tuple[AutocastSite, ...]) -> None:
    """Refuses autocast that an option of the script switches."""
    for site in sites:
        if site.switch is not None and not isinstance(site.switch, ast.Constant):
            message = f"`enabled={text_of(site.switch)}` decides whether autocast is on"
            raise refusal(message, site.module, site.call, hint="Make it False, by its option.")


def _is_off(switch: ast.expr | None) -> bool:
    return isinstance(switch, ast.Constant) and not switch.value
