"""Pads the vocabulary: the one size whose further rows and outputs nothing looks up and nothing predicts."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.blocks import replace
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.sites.layers import layer_calls, layer_class
from skyline.rewrite.value import whole_number
from skyline.source.arguments import passed
from skyline.source.edit import TextEdit
from skyline.source.knob import KnobKind
from skyline.source.origin import Frame, Route
from skyline.source.program import Module
from skyline.source.shared_use import reads
from skyline.source.syntax import last_name, text_of
from skyline.whatif.cost.alignment import padded

NAME = "pad_to_multiple"
_ROWS = {"Embedding": ("num_embeddings", 0), "Linear": ("out_features", 1)}
_SHAPING = {"view", "reshape", "print", "format", "isinstance", "int", "len"}
"""Calls that go along with whatever size it is."""


def snippet(value: str) -> str:
    """How to pad a size where it is set."""
    return f"size = -(-size // {value or 8}) * {value or 8}  # the next multiple\n"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """The literal that sets the vocabulary, or the literals where layers are made with numbers."""
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
            "No vocabulary is to be padded; the sizes inside of a model meet other sizes, which Skyline cannot prove",
            file=context.profile.script,
            hint="Change them by hand, all that must agree.",
        )
    chosen = [one for one in layers if one.options.get(_ROWS[one.class_name][0]) in vocabulary]
    edits: dict[tuple[str, int, int], tuple[TextEdit, ...]] = {}
    for module, call, layer in layer_calls(context, chosen):
        name, place = _ROWS[layer.class_name]
        given = passed(call, name, place).value
        size = layer.options[name]
        assert isinstance(size, int)
        if given is None:
            message = f"`{name}` is not written in `{text_of(call)}`"
            raise RewriteRefused(message, file=module.path, line=call.lineno)
        where, node = _literal(context, module, given, name, size, multiple)
        edits[where.path, node.lineno, node.col_offset] = _replaced(where, node, size, multiple)
    return tuple(edit for each in edits.values() for edit in each)


def _replaced(module: Module, node: ast.expr, size: int, multiple: int) -> tuple[TextEdit, ...]:
    written = isinstance(node, ast.Constant) and node.value == padded(size, multiple)
    return () if written else replace(module, node, str(padded(size, multiple)))


def _literal(
    context: RewriteContext, module: Module, node: ast.expr, name: str, size: int, multiple: int
) -> tuple[Module, ast.expr]:
    """The one number that sets a size; refused where it is computed, or sets something else as well."""
    route = Route(KnobKind.CALL_ARGUMENT, name)
    found = context.resolver.literals(node, Frame(module, module.scope(node)), route)
    places = {(one.module.path, one.node.lineno, one.node.col_offset) for one in found}
    said = f"`{text_of(node)}`"
    if len(places) != 1 or found[0].literal not in (size, padded(size, multiple)):
        message = f"Which number sets {said} could not be told"
        raise RewriteRefused(message, file=module.path, line=node.lineno)
    origin = found[0]
    if origin.route.computed or origin.route.option is not None:
        message = f"{said} is decided when the script runs"
        raise RewriteRefused(message, file=origin.module.path, line=origin.node.lineno)
    holders = [holder for one in found for holder in one.route.holders]
    names = {holder.name for holder in holders}
    for holder in holders:
        for where, use in reads(context.program, holder):
            if not _goes_along(context, where, use, names):
                line = where.source.line(use.lineno).strip()
                message = f"`{holder.name}` is also used in `{line}`, which would change with it"
                raise RewriteRefused(message, file=where.path, line=use.lineno)
    return origin.module, origin.node


def _goes_along(context: RewriteContext, module: Module, node: ast.expr, names: set[str]) -> bool:
    """Whether a use only sizes layers and tensors, or hands the number on to a variable of these names."""
    inner: ast.AST = node
    for around in module.around(node):
        match around:
            case ast.Attribute() | ast.keyword() | ast.Tuple():
                inner = around
            case ast.Call():
                if inner is around.func:
                    return False
                layer = bool(layer_class(module, around.func)) or last_name(around.func) in _SHAPING
                return layer or _parameter(context, around, inner) in names
            case ast.Compare() | ast.Assert() | ast.FormattedValue() | ast.JoinedStr():
                return True
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                return around.value is inner and last_name(target) in names
            case _:
                return False
    return False


def _parameter(context: RewriteContext, call: ast.Call, given: ast.AST) -> str:
    """What the program's own function or class calls the argument; empty where it is a stranger's."""
    name = last_name(call.func)
    for _, node in context.program.nodes_of(ast.FunctionDef, ast.ClassDef):
        if node.name != name:
            continue
        if isinstance(given, ast.keyword):
            return given.arg or ""
        function: ast.AST | None = node
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            function = next((each for each in methods if each.name == "__init__"), None)
        if isinstance(function, ast.FunctionDef) and isinstance(given, ast.expr) and given in call.args:
            parameters = [*function.args.posonlyargs, *function.args.args]
            place = call.args.index(given) + isinstance(node, ast.ClassDef)
            return parameters[place].arg if place < len(parameters) else ""
    return ""
