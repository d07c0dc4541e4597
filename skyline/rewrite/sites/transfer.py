"""The moves of the batch to the device: ``.to(device)`` and ``.cuda()`` in the training loop."""

from __future__ import annotations

import ast

from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import statement_of
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.sites.iteration import Iteration, Region, iteration
from skyline.source.arguments import qualified_name
from skyline.source.setting_names import words

_DTYPES = {
    "float", "float16", "float32", "float64", "bfloat16", "half", "double", "int", "int8", "int16", "int32",
    "int64", "long", "short", "bool", "uint8", "complex64", "complex128",
}  # fmt: skip
_NOT_DATA = {
    "model", "net", "network", "module", "criterion", "encoder", "decoder", "generator", "discriminator",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class TransferSite:
    """One move of data; ``destination`` is the device as written, None for ``.cuda()``."""

    region: Region
    call: ast.Call
    statement: ast.stmt
    data: ast.expr
    destination: ast.expr | None


def transfers(context: RewriteContext, within: Iteration | None = None) -> tuple[TransferSite, ...]:
    """Every move of the iteration's data to a device, in the order of the text; maybe none."""
    found: list[TransferSite] = []
    for region, call in (within or iteration(context)).nodes(ast.Call):
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("to", "cuda"):
            continue
        data = call.func.value
        name = _root(data)
        if name is None or set(words(name)) & _NOT_DATA or not _is_made_here(region, name):
            continue
        destination = _destination(region, call)
        if destination is None and call.func.attr == "to":
            continue
        found.append(TransferSite(region, call, statement_of(region.module, call), data, destination))
    return tuple(found)


def _destination(region: Region, call: ast.Call) -> ast.expr | None:
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "device"), None)
    given = given or (call.args[0] if call.args and not isinstance(call.args[0], ast.Starred) else None)
    if given is None:
        return None
    name = qualified_name(region.module, given) if isinstance(given, ast.Name | ast.Attribute) else ""
    if name.startswith("torch.") and name.rpartition(".")[2] in _DTYPES:
        return None
    is_cpu = isinstance(given, ast.Constant) and given.value == "cpu"
    return None if is_cpu else given


def _root(node: ast.expr) -> str | None:
    while True:
        match node:
            case ast.Name():
                return node.id
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=inner):
                node = inner
            case _:
                return None


def _is_made_here(region: Region, name: str) -> bool:
    """True if the region itself binds a name: in the loop's header or body, a comprehension, or as a parameter."""
    for node in ast.walk(region.node):
        match node:
            case ast.Name(id=bound, ctx=ast.Store()) | ast.arg(arg=bound) if bound == name:
                return True
            case _:
                continue
    return False
