"""Classes that a rewrite writes into a file, and the layers that they wrap."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence

from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import insert_before, inserted
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.factored import BY_HAND, deleted
from skyline.rewrite.imports import usable
from skyline.source.program import Module
from skyline.source.text import TextEdit, offsets_of

_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True, eq=False)
class Wrapped:
    """A call of a written class, with the inner call that makes the layer."""

    module: Module
    whole: ast.Call
    inner: ast.Call


def wrapped_calls(context: RewriteContext, names: Collection[str]) -> list[Wrapped]:
    """The calls of classes of these names that wrap a layer, in the order of the files."""
    return [
        Wrapped(module, call, inner)
        for module, call in context.program.nodes_of(ast.Call)
        if isinstance(call.func, ast.Name) and call.func.id in names
        for inner in call.args[:1]
        if isinstance(inner, ast.Call)
    ]


def with_classes(
    module: Module, calls: Sequence[ast.Call], texts: Mapping[str, Sequence[str]]
) -> tuple[TextEdit, ...]:
    """Adds the classes before the first statement of the file with one of the calls; fills in ``{torch}``.

    Raises RewriteRefused if one of the names is taken.
    """
    bound = {name for scope in module.scopes.values() for name in scope.bindings}
    taken = sorted(bound & texts.keys())
    first = min(calls, key=lambda call: call.lineno)
    if taken:
        raise refusal(f"The file has a `{taken[0]}` of its own", module, first, hint=BY_HAND)
    statement = next(
        each
        for each in (first, *module.around(first))
        if each in module.tree.body and isinstance(each, ast.stmt)
    )
    torch = usable(module, "torch", statement)
    lines = [line.replace("{torch}", torch.text) for text in texts.values() for line in (*text, "", "")]
    return (*torch.edits, *insert_before(module, statement, *lines))


def wrapped(module: Module, call: ast.Call, name: str, arguments: str) -> tuple[TextEdit, ...]:
    """Wraps a layer in a class, with further arguments."""
    start, end = offsets_of(module.source, call)
    return inserted(module, start, f"{name}("), inserted(module, end, f", {arguments})")


def unwrapped(
    context: RewriteContext, names: Collection[str], helpers: Collection[str] = ()
) -> tuple[TextEdit, ...]:
    """Restores the layers, and removes the classes and the helpers that only the classes use."""
    edits: list[TextEdit] = []
    for each in wrapped_calls(context, names):
        source = each.module.source
        (start, end), (first, last) = offsets_of(source, each.whole), offsets_of(source, each.inner)
        edits += (deleted(each.module, start, first), deleted(each.module, last, end))
    for module in context.program.modules:
        for statement in module.tree.body:
            if isinstance(statement, ast.ClassDef) and statement.name in (*names, *helpers):
                start, end = offsets_of(module.source, statement)
                space = _SPACE.match(module.source.text, end)
                edits.append(deleted(module, start, end if space is None else space.end()))
    return tuple(edits)
