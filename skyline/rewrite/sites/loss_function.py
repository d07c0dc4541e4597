"""The forward pass and the loss of an iteration as a function of the model: its reads, bindings and result."""

from __future__ import annotations

import ast

from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import preceding, statement_of, suite_of
from skyline.rewrite.context import refusal
from skyline.rewrite.sites.passes import ForwardSite, bound_names, inside_autocast
from skyline.source.program import Module
from skyline.source.text import Function, dotted, last_name, text_of

_LEAVES = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)
_VALUES = {"item", "tolist", "numpy"}


@dataclass(frozen=True, slots=True, eq=False)
class LossFunction:
    """Statements that can be the body of a function of the model.

    ``read`` are the names that they bind and outside code reads, without the loss; ``loss_read`` is True if
    code other than the backward pass reads the loss.
    """

    site: ForwardSite
    model: str
    read: tuple[str, ...]
    loss_read: bool


def loss_function(site: ForwardSite) -> LossFunction:
    """The forward pass as such a function; raises RewriteRefused if it cannot be one."""
    module = site.module
    if len(site.calls) != 1:
        message = "The loss takes more than one call of the model, or a function that calls it"
        raise refusal(message, module, site.statements[-1])
    (call,) = site.calls
    if not isinstance(call.func, ast.Name):
        raise refusal(f"The model is called as `{text_of(call.func)}`, not by a variable", module, call)
    if not site.loss.isidentifier():
        raise refusal(f"The loss is `{site.loss}`, not a variable", module, site.statements[-1])
    _check_block(site)
    bound = {name for statement in site.statements for name in _bound(module, statement)}
    _check_statements(site, bound)
    if call.func.id in bound:
        raise refusal(f"`{call.func.id}` is bound where the model is called", module, call)
    used = _read_outside(site, bound)
    backward = {id(each) for each in ast.walk(site.backward.loss)}
    others = {node.id for node in used if id(node) not in backward}
    extra = tuple(sorted(others - {site.loss}))
    return LossFunction(site, call.func.id, extra, site.loss in others)


def _check_block(site: ForwardSite) -> None:
    """Refuses unless the statements have lines of their own, in the block that ends in the backward pass."""
    module, back = site.module, site.backward
    suite = suite_of(module, site.statements[0])
    if back.statement not in suite or not isinstance(back.statement, ast.Expr):
        raise refusal("Forward pass and `backward()` are not in one block", module, back.call)
    header = module.parents[suite[0]]
    lines = [each.lineno for each in suite] + [getattr(header, "lineno", 0)]
    for each in (*site.statements, back.statement):
        if lines.count(each.lineno) > 1:
            raise refusal(f"`{text_of(each)}` shares its line with others", module, each)


def _check_statements(site: ForwardSite, bound: set[str]) -> None:
    module = site.module
    known: set[str] = set()
    for statement in _flat(site.statements):
        for node in ast.walk(statement):
            if isinstance(node, _LEAVES):
                raise refusal("The forward pass is left before `backward()`", module, statement)
            if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                message = f"`{text_of(node)}` would keep the tensors of all runs"
                raise refusal(message, module, statement)
            if isinstance(node, ast.Call) and last_name(node.func) in _VALUES:
                raise refusal(f"`{text_of(node)}` reads a value before `backward()`", module, statement)
            if isinstance(node, ast.Name) and _rebinds(module, statement, node, bound - known):
                message = f"`{node.id}` is read and bound again in the forward pass"
                raise refusal(message, module, statement, hint="Give the new value a name of its own.")
            if isinstance(node, ast.AugAssign) and dotted(node.target) not in known:
                raise refusal(f"`{text_of(statement)}` adds up over iterations", module, statement)
        if inside_autocast(module, statement) is not None:
            raise refusal("The forward pass is inside autocast", module, statement)
        if isinstance(statement, ast.If | ast.While) and known & {
            each.id for each in ast.walk(statement.test) if isinstance(each, ast.Name)
        }:
            message = f"`{text_of(statement.test)}` decides by values of one run"
            raise refusal(message, module, statement)
        known |= _bound(module, statement)


def _rebinds(module: Module, statement: ast.stmt, node: ast.Name, unbound: set[str]) -> bool:
    """True if a name is read before the statements bind it; a comprehension has its own names."""
    if node.id not in unbound or isinstance(node.ctx, ast.Store):
        return False
    found, own = module.scope(node).lookup(node.id), module.scope(statement).lookup(node.id)
    return found is None or own is None or found[0] is own[0]


def _bound(module: Module, statement: ast.stmt) -> set[str]:
    """The variables that a statement binds in its own scope."""
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
        and module.scope(node) is module.scope(statement)
    }


def _flat(statements: tuple[ast.stmt, ...] | list[ast.stmt]) -> list[ast.stmt]:
    """The statements, with each ``with`` replaced by its body."""
    found: list[ast.stmt] = []
    for each in statements:
        if isinstance(each, ast.With) and all(item.optional_vars is None for item in each.items):
            found += _flat(each.body)
        else:
            found.append(each)
    return found


def _read_outside(site: ForwardSite, bound: set[str]) -> list[ast.Name]:
    """The reads of these names elsewhere that see the values of the statements."""
    module, first = site.module, site.statements[0]
    scope = module.scope(first)
    inside = {id(node) for statement in site.statements for node in ast.walk(statement)}
    chosen = {id(statement) for statement in site.statements}
    found: list[ast.Name] = []
    for node in module.nodes:
        if not isinstance(node, ast.Name) or node.id not in bound or id(node) in inside:
            continue
        known = module.scope(node).lookup(node.id)
        if known is None or known[0] is not (scope.lookup(node.id) or (scope,))[0]:
            continue
        if isinstance(node.ctx, ast.Del):
            raise refusal(f"`{node.id}` is deleted", module, node, hint="Remove the line first.")
        if isinstance(node.ctx, ast.Load) and _sees(module, node, chosen):
            found.append(node)
    if any(name in scope.outer_names for name in bound):
        raise refusal("The forward pass binds a name of the whole file", module, first)
    return found


def _sees(module: Module, node: ast.Name, chosen: set[int]) -> bool:
    """False if another statement certainly binds the name after the chosen ones, before it is read."""
    function = next((each for each in module.around(node) if isinstance(each, Function)), None)
    statement = statement_of(module, node)
    for each in reversed(preceding(module, statement, function or module.tree)):
        if id(each) in chosen:
            return True
        if node.id in bound_names(each) and not isinstance(each, ast.If | ast.For | ast.While | ast.Try):
            return False
    around = [each for each in module.around(node) if isinstance(each, ast.For | ast.comprehension)]
    return not any(node.id in bound_names(ast.Assign([each.target], ast.Constant(0))) for each in around)
