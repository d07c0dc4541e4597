"""Pads the vocabulary, the only size whose added rows are never looked up and added outputs never right."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import replace
from skyline.rewrite.context import RewriteContext, refusal, whole_number
from skyline.rewrite.sites.layers import layer_calls, layer_class
from skyline.rewrite.sites.vocabulary import check_drawing, check_outputs, parameter_of
from skyline.source.arguments import passed
from skyline.source.knob import KnobKind
from skyline.source.origin import Frame, Route
from skyline.source.program import Module
from skyline.source.shared_use import reads
from skyline.source.text import TextEdit, last_name, offsets_of, text_of
from skyline.whatif.catalogue.models.alignment import padded

NAME = "pad_to_multiple"
_ROWS = {"Embedding": ("num_embeddings", 0), "Linear": ("out_features", 1)}
_SHAPING = {"view", "reshape", "print", "format", "isinstance", "int", "len"}
"""Calls that work with any size."""


def snippet(value: str) -> str:
    """The line that pads a size where it is set."""
    return f"size = -(-size // {value or 8}) * {value or 8}  # the next multiple\n"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Changes the literal that sets the vocabulary, or the sizes in the calls of layers if there is none."""
    multiple = whole_number(NAME, value or "8")
    layers = [
        module
        for module in context.profile.modules
        if module.library and module.class_name in _ROWS and module.options.get(_ROWS[module.class_name][0])
    ]
    of_class = {
        name: {one.options.get(argument) for one in layers if one.class_name == name}
        for name, (argument, _) in _ROWS.items()
    }
    vocabulary = {
        size
        for size in of_class["Embedding"] & of_class["Linear"]
        if isinstance(size, int) and size % multiple
    }
    if not vocabulary:
        raise RewriteRefused(
            "No size of a vocabulary can be padded. Sizes inside a model depend on other sizes, and Skyline "
            "cannot prove that all of them agree",
            file=context.profile.script,
            hint="Change by hand all sizes that must agree.",
        )
    chosen = [one for one in layers if one.options.get(_ROWS[one.class_name][0]) in vocabulary]
    sites: list[_Site] = []
    for module, call, layer in layer_calls(context, chosen):
        name, place = _ROWS[layer.class_name]
        given = passed(call, name, place).value
        size = layer.options[name]
        assert isinstance(size, int)
        if given is None:
            raise refusal(f"`{name}` is not written in `{text_of(call)}`", module, call)
        sites.append(_Site(module, given, name, size))
    edits = _in_literals(context, sites, multiple)
    return _in_layers(context, sites, multiple) if edits is None else edits


@dataclass(frozen=True, slots=True, eq=False)
class _Site:
    """The argument ``name`` that gives a size in the call of a layer."""

    module: Module
    given: ast.expr
    name: str
    size: int


def _in_literals(context: RewriteContext, sites: list[_Site], multiple: int) -> tuple[TextEdit, ...] | None:
    """The edits of the literals. None if a size is not set by one literal alone."""
    edits: dict[tuple[str, int, int], tuple[TextEdit, ...]] = {}
    for site in sites:
        found = _literal(context, site, multiple)
        if found is None:
            return None
        where, node = found
        edits[where.path, node.lineno, node.col_offset] = _replaced(where, node, site.size, multiple)
    for size in {site.size for site in sites}:
        check_drawing(context, size, padded(size, multiple))
    return tuple(edit for each in edits.values() for edit in each)


def _in_layers(context: RewriteContext, sites: list[_Site], multiple: int) -> tuple[TextEdit, ...]:
    """Pads the sizes of the layers to the next multiple; the number of words stays as it is."""
    edits: list[TextEdit] = []
    for size in {site.size for site in sites}:
        unpadded = [_without_padding(site.given) for site in sites if site.size == size]
        check_outputs(context, unpadded, size, padded(size, multiple))
    for site in sites:
        words = _without_padding(site.given)
        begin, end = offsets_of(site.module.source, words)
        text = site.module.source.text[begin:end]
        if not isinstance(words, ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.Constant):
            text = f"({text})"
        wanted = f"-(-{text} // {multiple}) * {multiple}"
        if ast.dump(ast.parse(wanted, mode="eval").body) != ast.dump(site.given):
            edits += replace(site.module, site.given, wanted)
    return tuple(edits)


def _without_padding(node: ast.expr) -> ast.expr:
    """The number that an expression written by ``_in_layers`` pads; any other expression as it is."""
    match node:
        case ast.BinOp(
            left=ast.UnaryOp(
                op=ast.USub(),
                operand=ast.BinOp(
                    left=ast.UnaryOp(op=ast.USub(), operand=inner),
                    op=ast.FloorDiv(),
                    right=ast.Constant(value=int() as by),
                ),
            ),
            op=ast.Mult(),
            right=ast.Constant(value=int() as times),
        ) if by == times:
            return inner
        case _:
            return node


def _replaced(module: Module, node: ast.expr, size: int, multiple: int) -> tuple[TextEdit, ...]:
    written = isinstance(node, ast.Constant) and node.value == padded(size, multiple)
    return () if written else replace(module, node, str(padded(size, multiple)))


def _literal(context: RewriteContext, site: _Site, multiple: int) -> tuple[Module, ast.expr] | None:
    """The one number that sets a size. None if it is computed, or sets something else as well."""
    route = Route(KnobKind.CALL_ARGUMENT, site.name)
    frame = Frame(site.module, site.module.scope(site.given))
    found = context.resolver.literals(site.given, frame, route)
    places = {(one.module.path, one.node.lineno, one.node.col_offset) for one in found}
    if len(places) != 1 or found[0].literal not in (site.size, padded(site.size, multiple)):
        return None
    origin = found[0]
    holders = [holder for one in found for holder in one.route.holders]
    names = {holder.name for holder in holders}
    uses = (use for holder in holders for use in reads(context.program, holder))
    is_computed = (
        isinstance(origin.node, ast.BinOp) or origin.route.computed or origin.route.option is not None
    )
    if is_computed or not all(_goes_along(context, *use, names) for use in uses):
        return None
    return origin.module, origin.node


def _goes_along(context: RewriteContext, module: Module, node: ast.expr, names: set[str]) -> bool:
    """True if a use only sizes layers and tensors, or passes the number on to a variable of these names."""
    inner: ast.AST = node
    for around in module.around(node):
        match around:
            case ast.Attribute() | ast.keyword() | ast.Tuple():
                inner = around
            case ast.Call():
                if inner is around.func:
                    return False
                layer = bool(layer_class(module, around.func)) or last_name(around.func) in _SHAPING
                return layer or parameter_of(context, around, inner) in names
            case ast.Compare() | ast.Assert() | ast.FormattedValue() | ast.JoinedStr():
                return True
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                return around.value is inner and last_name(target) in names
            case _:
                return False
    return False
