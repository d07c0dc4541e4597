"""The place where the model is complete: made, moved to its device, and not yet passed to the optimizer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import preceding, statement_of
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.sites.iteration import ROUTE, Framework
from skyline.rewrite.sites.passes import optimizer_calls
from skyline.source.arguments import call_sites, is_method, passed, position_of
from skyline.source.origin import ClassFound, Frame
from skyline.source.program import Module
from skyline.source.resolver import evaluation_of
from skyline.source.scope import BindingKind
from skyline.source.text import Function, dotted, last_name, names_in

_IN_PLACE = {
    *("to", "cuda", "cpu", "half", "float", "bfloat16", "double", "apply", "train", "requires_grad_"),
    *("load_state_dict", "gradient_checkpointing_enable", "resize_token_embeddings", "init_weights"),
}
_DEPTH_LIMIT = 6


@dataclass(frozen=True, slots=True, eq=False)
class ModelSite:
    """The model under its name ``text`` (``model``, ``self.model``); ``statement`` is the last one that makes it.

    Code inserted after ``statement`` sees the complete model, before the optimizer takes its parameters.
    ``value`` is the first value of the name, if that statement assigns it.
    """

    module: Module
    statement: ast.stmt
    text: str
    value: ast.expr | None


def model(context: RewriteContext) -> ModelSite:
    """The one model whose parameters are trained; raises RewriteRefused if it is unknown, or one of several."""
    first, *others = models(context)
    if others:
        names = ", ".join(f"`{site.text}`" for site in (first, *others))
        raise RewriteRefused(f"More than one model is trained: {names}", file=context.profile.script)
    return first


def models(context: RewriteContext) -> tuple[ModelSite, ...]:
    """The models whose parameters the optimizers train; raises RewriteRefused if one is unknown, or there is none."""
    sites: dict[tuple[str, str, int], ModelSite] = {}
    for module, call in optimizer_calls(context):
        owners = _owners(module, call)
        if not owners:
            message = f"The parameters of `{ast.unparse(call.func)}(…)` cannot be traced to a model"
            raise refusal(message, module, call)
        for where, owner, at in owners:
            site = _complete(context, where, owner, at, 0)
            if _is_plain_object(context, site):
                message = f"`{site.text}` is an object of a plain class that holds the model"
                raise refusal(message, site.module, site.statement)
            sites[site.module.path, site.text, site.statement.lineno] = site
    if not sites:
        raise RewriteRefused("No optimizer was found", file=context.profile.script)
    return tuple(sites.values())


def _is_plain_object(context: RewriteContext, site: ModelSite) -> bool:
    """True if the object is made by a class of the program without bases, which is no model of PyTorch."""
    made = site.value
    if not isinstance(made, ast.Call):
        return False
    found = context.resolver.meant(made.func, Frame(site.module, site.module.scope(made)), ROUTE)
    return any(
        isinstance(each, ClassFound) and all(last_name(base) == "object" for base in each.node.bases)
        for each in found
    )


def fitted(context: RewriteContext, owner: Framework) -> tuple[Module, ast.Call]:
    """The only call ``trainer.fit(model, …)`` of a framework; raises RewriteRefused if there is no such call."""
    fits = [
        (module, call)
        for module, call in context.program.nodes_of(ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "fit" and call.args
    ]
    if len(fits) != 1:
        message = f"{'No' if not fits else 'More than one'} `fit(model, …)` of {owner.title} was found"
        raise refusal(message, owner.module, owner.call)
    return fits[0]


def _owners(module: Module, call: ast.Call) -> list[tuple[Module, ast.expr, ast.stmt]]:
    """The objects whose ``parameters()`` reach an optimizer, once each, with the statement that reads them."""
    given = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "params")]
    found: dict[str, tuple[Module, ast.expr, ast.stmt]] = {}
    waiting = [(node, statement_of(module, call)) for node in given]
    seen: set[int] = set()
    while waiting:
        node, statement = waiting.pop(0)
        for child in ast.walk(node):
            if id(child) in seen:
                continue
            seen.add(id(child))
            match child:
                case ast.Call(func=ast.Attribute(attr="parameters" | "named_parameters", value=owner)):
                    if dotted(owner):
                        found.setdefault(dotted(owner), (module, owner, statement))
                case ast.Name(ctx=ast.Load()):
                    # ``params = [p for p in model.parameters() …]`` and parameter groups that are made before.
                    known = module.scope(child).lookup(child.id)
                    for binding in known[1] if known else ():
                        here = known is not None and known[0] is module.scope(call)
                        if binding.kind is BindingKind.ASSIGNED and binding.value is not None and here:
                            waiting.append((binding.value, statement_of(module, binding.node)))
                    waiting += _filled(module, child) if known is not None else ()
                case _:
                    continue
    return _outer_ones(list(found.values()))


def _filled(module: Module, name: ast.Name) -> Iterator[tuple[ast.expr, ast.stmt]]:
    """The sources of a list that loops fill, as ``for p in model.parameters(): (kept if … else rest).append(p)``."""
    scope = module.scope(name)
    for node in module.nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr="append" | "extend", value=lists)) if (
                module.scope(node) is scope
            ):
                if name.id in names_in([lists], ast.Load):
                    yield from (
                        (loop.iter, loop) for loop in module.around(node) if isinstance(loop, ast.For)
                    )
            case _:
                continue


def _outer_ones(
    owners: list[tuple[Module, ast.expr, ast.stmt]],
) -> list[tuple[Module, ast.expr, ast.stmt]]:
    """The owners without parts of others: ``model.head`` and ``model.body`` both belong to ``model``."""
    roots: dict[str, tuple[Module, ast.expr, ast.stmt]] = {}
    for module, owner, statement in owners:
        node = owner
        while isinstance(node, ast.Attribute) and not (
            isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        ):
            node = node.value
        roots.setdefault(ast.unparse(node), (module, node, statement))
    return list(roots.values())


def _complete(
    context: RewriteContext, module: Module, owner: ast.expr, at: ast.stmt, depth: int
) -> ModelSite:
    """The last statement before ``at`` that makes ``owner``; the callers are searched if it is a parameter."""
    text = ast.unparse(owner)
    last: tuple[ast.stmt, ast.expr | None] | None = None
    function = next((each for each in module.around(at) if isinstance(each, Function)), None)
    for statement in preceding(module, at, function or module.tree):
        made, value = makes(statement, text)
        if made:
            last = (statement, value)
    if last is not None:
        return ModelSite(module, last[0], text, last[1])
    if isinstance(owner, ast.Name) and function is not None and depth < _DEPTH_LIMIT:
        names = [
            each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        ]
        if owner.id in names:
            return _in_caller(context, module, function, owner.id, depth)
        if owner.id not in module.scope(at).bindings:
            return _at_top(module, text, owner)
    if isinstance(owner, ast.Attribute) and function is not None and depth < _DEPTH_LIMIT:
        return _in_class(module, function, text, owner)
    raise refusal(f"The place where `{text}` is made is unknown", module, at)


def makes(statement: ast.stmt, text: str) -> tuple[bool, ast.expr | None]:
    """True if a statement binds the model or changes it in place, and the value that it binds."""
    for node in ast.walk(statement):
        if isinstance(node, Function | ast.ClassDef):
            return False, None
        targets: list[ast.expr] = []
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) and node is statement else None
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            names = [
                ast.unparse(each) for each in (target.elts if isinstance(target, ast.Tuple) else [target])
            ]
            if text in names:
                value = (
                    node.value if isinstance(node, ast.Assign | ast.AnnAssign) and len(names) == 1 else None
                )
                return True, value if node is statement else None
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
            and node.value.func.attr in _IN_PLACE
            and ast.unparse(node.value.func.value) == text
        ):
            return True, None
    return False, None


def _in_caller(
    context: RewriteContext, module: Module, function: Function, name: str, depth: int
) -> ModelSite:
    position = position_of(function, name, bound=is_method(module, function))
    sites = [
        site
        for site in call_sites(context.program, module, function)
        if evaluation_of(site.module, site.call) is not True
    ]
    found: dict[tuple[str, str, int], ModelSite] = {}
    for site in sites:
        if position == -1:  # ``self``: the object of the method call
            given = site.call.func.value if isinstance(site.call.func, ast.Attribute) else None
        else:
            given = passed(site.call, name, position).value
        if given is None or not dotted(given):
            continue
        made = _complete(context, site.module, given, statement_of(site.module, given), depth + 1)
        found[made.module.path, made.text, made.statement.lineno] = made
    if len(found) != 1:
        count = "No call" if not found else "More than one call"
        raise refusal(f"{count} of `{function.name}` shows where `{name}` is made", module, function)
    return next(iter(found.values()))


def _at_top(module: Module, text: str, owner: ast.expr) -> ModelSite:
    last = next((each for each in reversed(module.tree.body) if makes(each, text)[0]), None)
    if last is None:
        raise refusal(f"The place where `{text}` is made is unknown", module, owner)
    return ModelSite(module, last, text, makes(last, text)[1])


def _bound(statement: ast.stmt) -> set[str]:
    return {
        ast.unparse(node)
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }


def _in_class(module: Module, function: Function, text: str, owner: ast.Attribute) -> ModelSite:
    """The site for an attribute that another method of the class binds, once."""
    around = module.parents.get(function)
    stores = [
        (method, statement)
        for method in (around.body if isinstance(around, ast.ClassDef) else ())
        if isinstance(method, Function) and method is not function
        for statement in method.body
        if makes(statement, text)[0]
    ]
    # Other methods may change it in place, as by ``self.net.train()``; one of them binds it.
    methods = {id(method): method for method, statement in stores if text in _bound(statement)}
    if len(methods) != 1:
        raise refusal(f"The place where `{text}` is made is unknown", module, owner)
    statement = [each for method, each in stores if id(method) in methods][-1]
    return ModelSite(module, statement, text, makes(statement, text)[1])
