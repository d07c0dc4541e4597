"""The expression that constructs the model, for constructing it again, and the last statement that makes it."""

from __future__ import annotations

import ast

from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import insert_after, preceding
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.imports import free_name
from skyline.rewrite.sites.iteration import ROUTE
from skyline.rewrite.sites.model import ModelSite, makes, model
from skyline.source.arguments import qualified_name
from skyline.source.origin import ClassFound, Frame
from skyline.source.program import Module
from skyline.source.text import Function, TextEdit, dotted, last_name, text_of, written

_RETURNS_ITSELF = {
    "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "train", "apply", "requires_grad_",
}  # fmt: skip
"""Methods of ``nn.Module`` that change the module and return it."""
_LOADS = "load_state_dict"


@dataclass(frozen=True, slots=True, eq=False)
class Construction:
    """The complete model, and an expression that constructs another one.

    ``edits`` bind the names that the expression needs. ``loads`` are the conditional statements that load saved
    weights into the model.
    """

    site: ModelSite
    expression: str
    edits: tuple[TextEdit, ...] = ()
    loads: tuple[ast.stmt, ...] = ()


def construction(context: RewriteContext) -> Construction:
    """The construction of the trained model; raises RewriteRefused if it does more than call a class."""
    site = model(context)
    module, name = site.module, site.text
    if not name.isidentifier():
        raise refusal(f"The model is `{name}`, not a variable", module, site.statement)
    function = next((each for each in module.around(site.statement) if isinstance(each, Function)), None)
    before = preceding(module, site.statement, function or module.tree)
    first, *others = [each for each in (*before, site.statement) if makes(each, name)[0]]
    made, edits = _first(context, module, first, name)
    loads: list[ast.stmt] = []
    for statement in others:
        if _only_loads(statement, name):
            loads.append(statement)
            continue
        made += _further(module, statement, name)
    return Construction(site, made, edits, tuple(loads))


def _first(
    context: RewriteContext, module: Module, statement: ast.stmt, name: str
) -> tuple[str, tuple[TextEdit, ...]]:
    """The expression of the statement that makes the model: an assignment, or an ``if`` with one in each branch."""
    value = _assigned(statement, name)
    if value is not None:
        _check_class(context, module, value)
        return _text(module, value), ()
    inside = [
        each
        for each in ast.walk(statement)
        if isinstance(each, ast.stmt) and each is not statement and makes(each, name)[0]
    ]
    branches = [each for each in inside if not isinstance(each, ast.If)]
    values = [_assigned(each, name) for each in branches]
    blocks = {id(module.parents[each]) for each in branches}
    if not isinstance(statement, ast.If) or None in values or len(blocks) < len(branches):
        raise refusal(f"`{name}` is not made by one assignment", module, statement)
    make = free_name(module, f"make_{name}", "fused")
    edits: list[TextEdit] = []
    for each, value in zip(branches, values, strict=True):
        assert value is not None
        _check_class(context, module, value)
        edits += insert_after(module, each, f"{make} = lambda: {_text(module, value)}")
    return f"{make}()", tuple(edits)


def _assigned(statement: ast.stmt, name: str) -> ast.expr | None:
    """The value of a plain assignment to the name."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
            return value
        case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
            return value
        case _:
            return None


def _check_class(context: RewriteContext, module: Module, value: ast.expr) -> None:
    """Raises RewriteRefused unless the value calls a class, with methods that only change the result."""
    made = value
    while (
        isinstance(made, ast.Call)
        and isinstance(made.func, ast.Attribute)
        and made.func.attr in _RETURNS_ITSELF
    ):
        made = made.func.value
    if not isinstance(made, ast.Call) or not dotted(made.func):
        raise refusal(f"`{text_of(value)}` does not call a class", module, value)
    if any(isinstance(each, ast.NamedExpr | ast.Await | ast.Yield) for each in ast.walk(value)):
        raise refusal(f"`{text_of(value)}` does more than make the model", module, value)
    found = context.resolver.meant(made.func, Frame(module, module.scope(made)), ROUTE)
    in_program = bool(found) and all(isinstance(each, ClassFound) for each in found)
    of_torch = qualified_name(module, made.func).startswith("torch.nn.")
    if not in_program and not (of_torch and last_name(made.func)[:1].isupper()):
        message = f"`{text_of(made.func)}` is no class of the program: it may do more than make the model"
        raise refusal(message, module, made)


def _further(module: Module, statement: ast.stmt, name: str) -> str:
    """The methods that a later statement calls on the model, as ``.to(device)``."""
    value = _assigned(statement, name)
    if value is None and isinstance(statement, ast.Expr):
        value = statement.value
    node = value
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _RETURNS_ITSELF
    ):
        node = node.func.value
    if value is None or value is node or not isinstance(node, ast.Name) or node.id != name:
        message = f"`{text_of(statement)}` changes the model after it is made"
        raise refusal(message, module, statement)
    return _text(module, value).removeprefix(name)


def _only_loads(statement: ast.stmt, name: str) -> bool:
    """True for an ``if`` that only loads saved weights into the model."""
    changing = [
        each
        for each in ast.walk(statement)
        if isinstance(each, ast.stmt) and not isinstance(each, ast.If) and makes(each, name)[0]
    ]
    return isinstance(statement, ast.If) and all(
        isinstance(each, ast.Expr)
        and isinstance(each.value, ast.Call)
        and last_name(each.value.func) == _LOADS
        for each in changing
    )


def _text(module: Module, node: ast.expr) -> str:
    text = written(module.source, node)
    return ast.unparse(node) if "\n" in text or "\r" in text else text
