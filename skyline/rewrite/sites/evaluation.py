"""The places where the program evaluates its model, and whether gradients are recorded there."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import statement_of
from skyline.rewrite.context import RewriteContext, refusal
from skyline.source.arguments import call_sites
from skyline.source.program import Module
from skyline.source.text import Function, last_name

_OFF = ("no_grad", "inference_mode", "set_grad_enabled")
_TRAINS = ("backward", "manual_backward", "zero_grad", "optimizer_step", "grad", "training_step")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationSite:
    """A function that only evaluates, or else evaluating statements in a function that also trains."""

    module: Module
    function: Function | None
    statements: tuple[ast.stmt, ...]


def evaluations(context: RewriteContext) -> tuple[EvaluationSite, ...]:
    """All evaluations that record gradients, each once; raises RewriteRefused if the program has none.

    Facts of the run come first: lines that called a model without a backward pass over the results. Without
    such facts, functions count that switch a model to evaluation, or are named for it.
    """
    told = [
        (*context.place(call.line), call.options.get("trained_here"))
        for call in context.profile.calls
        if call.name == "eval forward" and call.line is not None and call.options.get("grad_enabled") is True
    ]
    found: list[EvaluationSite] = []
    for module, line, trained_here in told:
        site = _site_at(module, line)
        if trained_here == "line" or (trained_here and site.function is not None):
            owner = site.function or site.statements[0]
            raise refusal("training calls the model here, too: it needs the gradients", module, owner)
        if not any(_same(site, other) for other in found):
            found.append(site)
    if told:
        return tuple(site for site in found if not _is_off(context, site))
    functions = [
        (module, node)
        for module, node in context.program.nodes_of(ast.FunctionDef)
        if _evaluates(node) and not trains(node) and _is_public(node)
    ]
    if not functions:
        raise RewriteRefused("No evaluation of the model was found", file=context.profile.script)
    sites = [EvaluationSite(module, node, ()) for module, node in functions]
    return tuple(site for site in sites if not _is_off(context, site))


def trains(node: ast.AST) -> bool:
    """True if anything in a node makes or uses gradients."""
    return any(isinstance(each, ast.Call) and last_name(each.func) in _TRAINS for each in ast.walk(node))


def _site_at(module: Module, line: int) -> EvaluationSite:
    node = max(
        (
            each
            for each in module.nodes
            if isinstance(each, ast.stmt) and each.lineno <= line <= (each.end_lineno or each.lineno)
        ),
        key=lambda each: (each.lineno, each.col_offset),
        default=None,
    )
    if node is None:
        raise RewriteRefused("The evaluation was not found in the source", file=module.path, line=line)
    around = [node, *module.around(node)]
    function = next((each for each in around if isinstance(each, Function)), None)
    if function is not None and not trains(function):
        return EvaluationSite(module, function, ())
    chosen: ast.stmt = node
    for each in around:
        if isinstance(each, Function | ast.Module) or trains(each):
            break
        if isinstance(each, (*_LOOPS, ast.With)):
            chosen = each
    if trains(chosen):
        raise refusal("Evaluation and training share a statement", module, chosen)
    return EvaluationSite(module, None, (statement_of(module, chosen),))


def _same(site: EvaluationSite, other: EvaluationSite) -> bool:
    if site.function is not None or other.function is not None:
        return site.function is other.function
    return site.statements == other.statements


def _evaluates(function: ast.FunctionDef) -> bool:
    switched = any(
        isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and ((each.func.attr == "eval" and not each.args) or _is_train_false(each))
        for each in ast.walk(function)
    )
    named = function.name in ("evaluate", "validate", "validation")
    return switched or (named and any(isinstance(each, _LOOPS) for each in ast.walk(function)))


def _is_train_false(call: ast.Call) -> bool:
    named = isinstance(call.func, ast.Attribute) and call.func.attr == "train"
    return named and any(isinstance(each, ast.Constant) and each.value is False for each in call.args)


def _is_public(function: ast.FunctionDef) -> bool:
    """False for methods that a framework calls, and for a model's own ``eval``."""
    return function.name not in ("eval", "train", "validation_step", "test_step", "forward", "__init__")


def _is_off(context: RewriteContext, site: EvaluationSite) -> bool:
    """True if gradients are not recorded: inside, around, or wherever the function is called."""
    module = site.module
    if site.function is None:
        return _under(module, site.statements[0]) or _switches(site.statements[0])
    if any(_names_off(each) for each in site.function.decorator_list) or _switches(site.function):
        return True
    calls = list(call_sites(context.program, module, site.function))
    return bool(calls) and all(
        _under(each.module, each.call) or _decorated(each.module, each.call) for each in calls
    )


def _switches(node: ast.AST) -> bool:
    """True if a node switches the recording off; assumes that the switch covers the model calls."""
    return any(
        isinstance(each, ast.With) and any(_names_off(item.context_expr) for item in each.items)
        for each in ast.walk(node)
    ) or any(
        isinstance(each, ast.Expr)
        and isinstance(each.value, ast.Call)
        and last_name(each.value.func) == _OFF[2]
        for each in ast.walk(node)
    )


def _under(module: Module, node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.With) and any(_names_off(item.context_expr) for item in each.items)
        for each in module.around(node)
    )


def _decorated(module: Module, node: ast.AST) -> bool:
    function = next((each for each in module.around(node) if isinstance(each, Function)), None)
    return function is not None and any(_names_off(each) for each in function.decorator_list)


def _names_off(node: ast.expr) -> bool:
    return last_name(node.func if isinstance(node, ast.Call) else node) in _OFF


@dataclass(frozen=True, slots=True, eq=False)
class GradientsOff:
    """A place where an evaluation switches the recording of gradients off: a ``with`` or a decorator."""

    module: Module
    owner: ast.With | Function
    switch: ast.withitem | ast.expr


def switched_off(context: RewriteContext) -> tuple[GradientsOff, ...]:
    """All such places around or in code that only evaluates, each once; maybe none.

    Places around other code are left out: updates by hand and initial values need them.
    """
    told = [
        context.place(call.line)
        for call in context.profile.calls
        if call.name == "eval forward" and call.line is not None
    ]
    found: list[GradientsOff] = []
    for module, line in told:
        within = [
            node
            for node in module.nodes
            if isinstance(node, ast.With | Function)
            and node.lineno <= line <= (node.end_lineno or node.lineno)
        ]
        found += [each for node in within for each in _switches_of(module, node)]
    if not told:
        for module, function in context.program.nodes_of(ast.FunctionDef):
            if not _evaluates(function) or trains(function) or not _is_public(function):
                continue
            inside = [each for each in ast.walk(function) if isinstance(each, ast.With)]
            found += [each for node in (function, *inside) for each in _switches_of(module, node)]
            for site in call_sites(context.program, module, function):
                around = [each for each in site.module.around(site.call) if isinstance(each, ast.With)]
                found += [each for node in around for each in _switches_of(site.module, node)]
    return tuple({id(each.switch): each for each in found if not trains(each.owner)}.values())


def _switches_of(module: Module, node: ast.With | Function) -> list[GradientsOff]:
    if isinstance(node, ast.With):
        return [GradientsOff(module, node, item) for item in node.items if _is_switch(item.context_expr)]
    return [GradientsOff(module, node, each) for each in node.decorator_list if _is_switch(each)]


def _is_switch(node: ast.expr) -> bool:
    """True for ``torch.no_grad()`` and ``torch.inference_mode()`` without arguments other than True."""
    if not isinstance(node, ast.Call):
        return last_name(node) in _OFF[:2]
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    plain = all(isinstance(each, ast.Constant) and each.value is True for each in given)
    return last_name(node.func) in _OFF[:2] and plain


def without_gradients(module: Module, node: ast.AST) -> bool:
    """True if the source around a node switches the recording of gradients off."""
    return _under(module, node) or _decorated(module, node)
