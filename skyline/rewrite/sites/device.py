"""How a script calls the device that it computes on."""

from __future__ import annotations

import ast

from skyline.rewrite.context import RewriteContext
from skyline.rewrite.imports import Usable, usable
from skyline.rewrite.sites.iteration import ROUTE, Iteration, Region
from skyline.rewrite.sites.transfer import transfers
from skyline.source.calls import qualified_name
from skyline.source.origin import Value
from skyline.source.syntax import dotted


def device_type(context: RewriteContext, region: Region, within: Iteration, at: ast.AST) -> Usable:
    """The kind of device (``"cuda"``, ``"cpu"``) as an expression at a place in a region.

    It is taken from the script's own name for the device where the region moves its data there or knows that name;
    without one it is the literal that the run told.
    """
    names: list[ast.expr] = []
    for site in transfers(context, within):
        if site.destination is None:
            return Usable('"cuda"')
        if isinstance(site.destination, ast.Constant):
            return Usable(_literal(site.destination.value))
        if dotted(site.destination) and site.region is region:
            names.append(site.destination)
    for node in names:
        if _is_known(region, node):
            if _is_device(context, region, node):
                return Usable(f"{ast.unparse(node)}.type")
            made = usable(region.module, "torch.device", at)
            return Usable(f"{made.text}({ast.unparse(node)}).type", made.edits)
    kind = context.profile.environment.device.kind
    return Usable(f'"{kind}"')


def _literal(value: object) -> str:
    # A bare number is the number of a GPU.
    return f'"{value.partition(":")[0]}"' if isinstance(value, str) else '"cuda"'


def _is_known(region: Region, node: ast.expr) -> bool:
    """Whether the name is there before anything of the iteration is carried out."""
    first = dotted(node).partition(".")[0]
    inside = {
        child.id
        for statement in region.node.body
        for child in ast.walk(statement)
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)
    }
    return first not in inside and region.module.scope(node).lookup(first) is not None


def _is_device(context: RewriteContext, region: Region, node: ast.expr) -> bool:
    found = context.resolver.meant(node, region.frame, ROUTE)
    return bool(found) and all(
        isinstance(each, Value)
        and isinstance(each.node, ast.Call)
        and qualified_name(each.frame.module, each.node.func) == "torch.device"
        for each in found
    )
