"""The statements of the forward pass and the loss: from the call of the model to the one that makes the loss."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import preceding, suite_of
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.sites.iteration import ROUTE, Iteration, Region, function_called, iteration
from skyline.rewrite.sites.step import BackwardSite, backward, optimizer_calls
from skyline.source.batch_names import words
from skyline.source.origin import Frame, Instance
from skyline.source.program import Module
from skyline.source.scope import own_scope
from skyline.source.text import Function, dotted, last_name

_MODEL_WORDS = {
    "model",
    "net",
    "network",
    "encoder",
    "decoder",
    "backbone",
    "classifier",
    "module",
    "transformer",
}
_NOT_FORWARD = {
    *(
        "parameters",
        "named_parameters",
        "train",
        "eval",
        "to",
        "cuda",
        "cpu",
        "state_dict",
        "load_state_dict",
    ),
    *(
        "zero_grad",
        "children",
        "modules",
        "named_modules",
        "no_sync",
        "requires_grad_",
        "half",
        "float",
        "buffers",
    ),
}
_NOT_MODEL = {"criterion", "loss", "scaler", "print", "len", "range", "zip", "enumerate", "tqdm"}


@dataclass(frozen=True, slots=True, eq=False)
class ForwardSite:
    """Neighbouring statements of one block, the call of the model in the first, the loss made in the last.

    ``calls`` are the calls of models in them, ``loss`` is what the last one binds.
    """

    region: Region
    statements: tuple[ast.stmt, ...]
    calls: tuple[ast.Call, ...]
    loss: str
    backward: BackwardSite

    @property
    def module(self) -> Module:
        """The file that they are in."""
        return self.region.module


def forward(context: RewriteContext, within: Iteration | None = None) -> ForwardSite:
    """The forward pass behind the one backward pass; raises RewriteRefused where it cannot be delimited."""
    within = within or iteration(context)
    site = backward(context, within)
    region, module = site.region, site.region.module
    loss = dotted(site.loss)
    if not loss:
        message = f"The loss `{ast.unparse(site.loss)[:60]}` is computed where `backward()` is called"
        raise refusal(message, module, site.call, hint="Give it a name on a line of its own first.")
    before = preceding(module, site.statement, region.node)
    names = {loss}
    first: ast.stmt | None = None
    last: ast.stmt | None = None
    calls: list[ast.Call] = []
    for statement in reversed(before):
        bound = bound_names(statement)
        if not bound & names:
            continue
        last = last or statement
        if suite_of(module, last) is not suite_of(module, statement):
            break
        found = model_calls(context, region, statement)
        if found:
            first = statement
            calls = [*found, *calls]
        names |= _read_names(statement)
    if first is None or last is None:
        message = f"The call of the model behind `{loss}` was not found before `backward()`"
        raise refusal(message, module, site.call)
    suite = suite_of(module, first)
    chosen = tuple(suite[suite.index(first) : suite.index(last) + 1])
    return ForwardSite(region, chosen, tuple(calls), loss, site)


def model_calls(context: RewriteContext, region: Region, *statements: ast.AST) -> list[ast.Call]:
    """The calls of a model in some statements, or of functions of the program that call one."""
    trained = _trained(context)
    return [
        node
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and _calls_model(context, region, node, trained, 0)
    ]


def _calls_model(
    context: RewriteContext, region: Region, call: ast.Call, trained: set[str], depth: int
) -> bool:
    if is_model(context, region, call.func, trained):
        return True
    if depth > 3:
        return False
    for found in function_called(context, region, call):
        inside = _region_of(region, call, found.module, found.node)
        for each in ast.walk(found.node):
            if isinstance(each, ast.Call) and _calls_model(context, inside, each, trained, depth + 1):
                return True
    return False


def _region_of(region: Region, call: ast.Call, module: Module, function: Function) -> Region:
    scope = own_scope(module.scopes, function)
    return Region(module, function, Frame(module, scope, function, call, region.frame))


def is_model(context: RewriteContext, region: Region, callee: ast.expr, trained: set[str]) -> bool:
    """True if what is called is the model: by the optimizer's parameters, by its class, or else by its name."""
    name = dotted(callee)
    if not name or set(words(name)) & _NOT_MODEL:
        return False
    if name.removesuffix(".forward").removesuffix(".module") in trained:
        return True
    if isinstance(callee, ast.Attribute) and dotted(callee.value) in trained:
        return callee.attr not in _NOT_FORWARD
    for found in context.resolver.meant(callee, region.frame, ROUTE):
        if isinstance(found, Instance):
            return any(last_name(base) in ("Module", "LightningModule") for base in found.of.node.bases)
    own = last_name(callee)
    return bool(set(words(own)[-1:]) & _MODEL_WORDS) and own[:1].islower()


def _trained(context: RewriteContext) -> set[str]:
    """The names of the objects whose parameters the optimizers take."""
    try:
        calls = optimizer_calls(context)
    except RewriteRefused:
        return set()
    return {
        dotted(child.func.value)
        for _, call in calls
        for child in ast.walk(call)
        if isinstance(child, ast.Call)
        and isinstance(child.func, ast.Attribute)
        and child.func.attr in ("parameters", "named_parameters")
    } - {""}


def bound_names(statement: ast.stmt) -> set[str]:
    """The names that a statement, or one inside it, gives a value."""
    found: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(dotted(node))
    return found - {""}


def _read_names(statement: ast.stmt) -> set[str]:
    """The names that a statement reads; the empty one stands for what has no name."""
    return {
        dotted(node)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def inside_autocast(module: Module, node: ast.AST) -> ast.With | None:
    """The ``with torch.autocast(…)`` around a node, None without one."""
    for around in (node, *module.around(node)):
        if isinstance(around, ast.With) and any(
            "autocast" in last_name(item.context_expr.func)
            for item in around.items
            if isinstance(item.context_expr, ast.Call)
        ):
            return around
    return None
