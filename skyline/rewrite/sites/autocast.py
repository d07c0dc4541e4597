"""Autocast blocks in and around the training loop."""

from __future__ import annotations

import ast

from skyline.lazy_dataclass import dataclass
from skyline.rewrite.sites.iteration import Iteration
from skyline.source.arguments import qualified_name
from skyline.source.program import Module
from skyline.source.text import last_name

_FORMATS = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.half": "fp16"}


@dataclass(frozen=True, slots=True, eq=False)
class AutocastSite:
    """One ``with torch.autocast(…)`` inside or around the loop."""

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
        return "bf16" if self.device == "cpu" or "cpu" in ast.unparse(self.call.func) else "fp16"

    @property
    def device(self) -> str:
        """The kind of device as it is written, such as ``cpu``; empty if it is computed."""
        given = next((each.value for each in self.call.keywords if each.arg == "device_type"), None)
        given = given or (self.call.args[0] if self.call.args else None)
        return str(given.value) if isinstance(given, ast.Constant) else ""

    @property
    def switch(self) -> ast.expr | None:
        """The argument ``enabled``. None if it is not given."""
        return next((each.value for each in self.call.keywords if each.arg == "enabled"), None)

    @property
    def is_off(self) -> bool:
        """True for a block with ``enabled=False``."""
        return isinstance(self.switch, ast.Constant) and not self.switch.value


def autocasts(within: Iteration) -> tuple[AutocastSite, ...]:
    """All autocast blocks of the training, outermost first, except those that are always off."""
    return tuple(site for site in autocast_blocks(within) if not site.is_off)


def autocast_blocks(within: Iteration) -> list[AutocastSite]:
    """All autocast blocks of the training, outermost first, also those that are always off."""
    around = [
        (within.module, each) for each in within.module.around(within.loop) if isinstance(each, ast.With)
    ]
    inside = [(region.module, block) for region, block in within.nodes(ast.With)]
    return [
        AutocastSite(module, block, item, item.context_expr)
        for module, block in (*reversed(around), *inside)
        for item in block.items
        if isinstance(item.context_expr, ast.Call) and "autocast" in last_name(item.context_expr.func)
    ]
