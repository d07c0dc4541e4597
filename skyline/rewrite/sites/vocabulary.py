"""Proof that a model may have more rows and outputs than words: no other code depends on the number of words."""

from __future__ import annotations

import ast

from skyline.lazy_dataclass import dataclass
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.sites.layers import layer_class
from skyline.source.program import Module
from skyline.source.text import Function, dotted, last_name, literal_key, text_of

_SHAPING = {"view", "reshape", "expand", "unflatten", "one_hot", "zeros", "ones", "full", "empty", "eye"}
_HARMLESS = {
    "print", "format", "isinstance", "info", "debug", "warning", "log", "str", "repr", "randint", "range",
}  # fmt: skip
"""Calls that may take a number of words, whatever the sizes of the layers."""
_TRANSPARENT, _SELECTING = {"int"}, {"max", "min"}
_MADE = (ast.Call, ast.BinOp)
_DRAWING = {"multinomial", "Categorical"}
_RARELY = 0.01
"""The largest share of added outputs at which the model learns in time that they are never right."""


def check_outputs(context: RewriteContext, expressions: list[ast.expr], size: int, padded: int) -> None:
    """Refuses if other code has to agree with the number of outputs that the expressions give to layers.

    The check goes by names in the whole program: a variable of the same name elsewhere counts as this one,
    and so do variables that get their value from it or give it their value.
    """
    flows = _flows(context)
    names = {name for each in expressions for name in _names_in(each)}
    made = {ast.dump(each) for each in expressions if isinstance(each, _MADE)}
    before = -1
    while before != len(names) + len(made):
        before = len(names) + len(made)
        for flow in flows:
            if flow.targets is None:
                continue
            if flow.source in names or flow.made in made:
                names |= flow.targets
            if flow.is_same and flow.targets & names:
                names |= {flow.source} - {""}
                made |= {flow.made} - {""}
    for flow in flows:
        if flow.targets is None and (flow.source in names or flow.made in made):
            line = flow.module.source.line(flow.node.lineno).strip()
            message = (
                f"`{text_of(flow.node)}` is also used in `{line}`, which would not agree with padded layers"
            )
            raise refusal(message, flow.module, flow.node)
    for module, call in context.program.nodes_of(ast.Call):
        written = [each for each in ast.walk(call) if isinstance(each, ast.Constant) and each.value == size]
        if last_name(call.func) in _SHAPING and written:
            raise refusal(f"`{module.source.line(call.lineno).strip()}` has {size} written out", module, call)
    check_drawing(context, size, padded)


@dataclass(frozen=True, slots=True, eq=False)
class _Flow:
    """The names that get a variable or a computed value; None if it goes to something other than a name.

    ``source`` is the variable's name. ``made`` identifies calls and arithmetic that are written alike.
    ``is_same`` is True if the names get the number itself, not a result computed from it.
    """

    module: Module
    node: ast.expr
    source: str
    made: str
    targets: set[str] | None
    is_same: bool


def _flows(context: RewriteContext) -> list[_Flow]:
    found: list[_Flow] = []
    for module, node in context.program.nodes_of(ast.Name, ast.Attribute, ast.Subscript, *_MADE):
        is_made = isinstance(node, _MADE)
        name = "" if is_made else _name_of(node)
        if is_made or (name and isinstance(node.ctx, ast.Load)):
            targets, is_same = _goes_to(context, module, node)
            found.append(_Flow(module, node, name, ast.dump(node) if is_made else "", targets, is_same))
    return found


def check_drawing(context: RewriteContext, size: int, padded: int) -> None:
    """Refuses if words are drawn from the model's outputs, and many of the outputs would not be words."""
    if padded - size <= _RARELY * size:
        return
    for module, call in context.program.nodes_of(ast.Call):
        if last_name(call.func) not in _DRAWING:
            continue
        function = next((each for each in module.around(call) if isinstance(each, Function)), None)
        if function is None or _is_called(context, module, function):
            message = f"Words are drawn from the model's outputs, of which {padded - size} would not be words"
            hint = f"Draw from the first {size} outputs only, in a function outside the project."
            raise refusal(message, module, call, hint=hint)


def _is_called(context: RewriteContext, module: Module, function: Function) -> bool:
    return any(
        where is not module or not any(around is function for around in where.around(call))
        for where, call in context.program.calls_of(function.name)
    )


def _goes_to(context: RewriteContext, module: Module, node: ast.expr) -> tuple[set[str] | None, bool]:
    """The names that get a number from here, and whether they get the number itself.

    The names are None if the number goes to something that may have to agree with layers.
    """
    inner: ast.AST = node
    is_same = True
    for around in module.around(node):
        match around:
            case ast.BinOp() | ast.UnaryOp() | ast.BoolOp():
                inner, is_same = around, False
            case ast.keyword():
                inner = around
            case ast.IfExp():
                if inner is around.test:
                    return set(), is_same
                inner = around
            case ast.Call(func=callee) if callee is not inner:
                if layer_class(module, callee) or last_name(callee) in _HARMLESS:
                    return set(), is_same
                if last_name(callee) not in _TRANSPARENT | _SELECTING:
                    name = parameter_of(context, around, inner)
                    return ({name} if name else None), is_same
                inner, is_same = around, is_same and last_name(callee) in _TRANSPARENT
            case ast.Compare():
                return (None if _asks_for_a_shape(around) else set()), is_same
            case ast.Assert() | ast.FormattedValue() | ast.Slice() | ast.If() | ast.While() | ast.Expr():
                return set(), is_same
            case ast.Dict() if inner in around.values:
                key = next(key for key, held in zip(around.keys, around.values, strict=True) if held is inner)
                names = {key.value} if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
                return names, is_same
            case ast.Assign(targets=targets) if inner is around.value:
                return _bound(targets), is_same
            case ast.AnnAssign(target=target) if inner is around.value:
                return _bound([target]), is_same
            case _:
                return None, is_same
    return None, is_same


def _bound(targets: list[ast.expr]) -> set[str] | None:
    names = [_name_of(each) for each in targets]
    return set(names) if all(names) else None


def _asks_for_a_shape(comparison: ast.Compare) -> bool:
    asked = [node for node in ast.walk(comparison) if isinstance(node, ast.Attribute | ast.Call)]
    return any(
        last_name(each.func if isinstance(each, ast.Call) else each) in ("shape", "size") for each in asked
    )


def _names_in(expression: ast.expr) -> set[str]:
    """The variables that an expression reads, without the objects that they belong to."""
    owners = {
        id(inner)
        for node in ast.walk(expression)
        if isinstance(node, ast.Attribute | ast.Subscript) and _name_of(node)
        for inner in ast.walk(node)
        if inner is not node
    }
    nodes = [node for node in ast.walk(expression) if id(node) not in owners]
    return {name for node in nodes if isinstance(node, ast.expr) and (name := _name_of(node))}


def _name_of(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript():
            key = literal_key(node)
            return key if isinstance(key, str) else ""
        case _:
            return ""


def parameter_of(context: RewriteContext, call: ast.Call, given: ast.AST) -> str:
    """The parameter name in the program's own function or class; empty for a library's."""
    name = last_name(call.func)
    if dotted(call.func) == "dict" and isinstance(given, ast.keyword):
        return given.arg or ""
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
