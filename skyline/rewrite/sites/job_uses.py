"""Uses of the model in the program: those that stay with the first run, and those that all runs need."""

from __future__ import annotations

import ast

from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import statement_of
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.sites.evaluation import without_gradients
from skyline.rewrite.sites.iteration import Iteration
from skyline.rewrite.sites.loss_function import LossFunction
from skyline.rewrite.sites.model import ModelSite
from skyline.rewrite.sites.model_uses import ModelUse, model_uses
from skyline.rewrite.sites.passes import optimizer_calls
from skyline.source.arguments import qualified_name
from skyline.source.program import Module
from skyline.source.text import last_name, text_of

_STAYS = {"train", "eval", "state_dict"}
"""Methods that act on the model of run 0; the other models follow its mode."""
_PARTS = {"weight", "bias", "data", "grad", "requires_grad", "register_parameter", "register_buffer"}
_CLIP = "torch.nn.utils.clip_grad_norm_"
_CLIP_VALUE = "torch.nn.utils.clip_grad_value_"
_SHOWN_TO = {"print", "len", "isinstance", "type"}


@dataclass(frozen=True, slots=True, eq=False)
class JobUses:
    """The uses of the model that have to become uses of the models of all runs.

    ``clips`` are the calls that clip the norm of the gradients, with the model that they clip.
    """

    parameters: tuple[ModelUse, ...]
    zero_grads: tuple[ModelUse, ...]
    clips: tuple[tuple[ast.Call, ModelUse], ...]


def job_uses(context: RewriteContext, site: ModelSite, function: LossFunction, within: Iteration) -> JobUses:
    """All uses that concern every run; raises RewriteRefused for a use that changes the model of one run."""
    parameters: list[ModelUse] = []
    zero_grads: list[ModelUse] = []
    clips: list[tuple[ast.Call, ModelUse]] = []
    (forward,) = function.site.calls
    optimizers = {id(call): call for _, call in optimizer_calls(context)}
    inside = {id(node) for statement in function.site.statements for node in ast.walk(statement)}
    uses = model_uses(context, site)
    if not any(use.node is forward.func for use in uses):
        raise refusal(
            f"`{text_of(forward.func)}` is not the model that the optimizer trains",
            function.site.module,
            forward,
        )
    for use in uses:
        module, node = use.module, use.node
        if node is forward.func:
            continue
        if id(node) in inside:
            message = f"`{text_of(use.parent)}` reads the model in the forward pass"
            raise refusal(message, module, node)
        if use.is_forward:
            continue
        if use.handed_to is not None:
            if last_name(use.handed_to.func) not in _SHOWN_TO:
                raise refusal(f"`{text_of(use.handed_to)}` gets the model of one run", module, node)
            continue
        call = _method_called(use)
        name = call.func.attr if call is not None and isinstance(call.func, ast.Attribute) else ""
        if call is not None and name == "zero_grad":
            zero_grads.append(use)
        elif call is not None and name in ("parameters", "named_parameters"):
            owner = _given_to(module, call)
            callee = "" if owner is None else qualified_name(module, owner.func)
            if callee == _CLIP_VALUE or (id(owner) in optimizers and name == "parameters"):
                parameters.append(use)
            elif owner is not None and callee == _CLIP:
                _check_clip(module, owner)
                clips.append((owner, use))
            elif not _counts(module, call):
                raise refusal(
                    f"`{text_of(statement_of(module, call))}` goes over the parameters of one run",
                    module,
                    call,
                )
        elif not (call is not None and name in _STAYS):
            _check_other(context, use, call, within)
    if not any(
        id(_given_to(use.module, call)) in optimizers for use in parameters if (call := _method_called(use))
    ):
        call = next(iter(optimizers.values()))
        module = next(module for module, each in optimizer_calls(context) if each is call)
        raise refusal(f"`{text_of(call)}` is not given `{site.text}.parameters()` alone", module, call)
    return JobUses(tuple(parameters), tuple(zero_grads), tuple(clips))


def _method_called(use: ModelUse) -> ast.Call | None:
    """The call in ``model.method(…)``; None for any other use."""
    parent = use.parent
    around = use.module.parents[parent] if isinstance(parent, ast.Attribute) else None
    return around if isinstance(around, ast.Call) and around.func is parent else None


def _given_to(module: Module, call: ast.Call) -> ast.Call | None:
    """The call whose first argument, or argument ``params``, this is."""
    around = module.parents[call]
    if isinstance(around, ast.keyword) and around.arg in ("params", "parameters"):
        around = module.parents[around]
        return around if isinstance(around, ast.Call) else None
    return around if isinstance(around, ast.Call) and around.args[:1] == [call] else None


def _check_clip(module: Module, call: ast.Call) -> None:
    """Refuses all but ``clip_grad_norm_(model.parameters(), 1.0)`` as a statement with the Euclidean norm."""
    named = [keyword.arg for keyword in call.keywords]
    plain = (len(call.args), named) in ((2, []), (1, ["max_norm"]))
    if not plain or not isinstance(module.parents[call], ast.Expr):
        raise refusal(f"`{text_of(call)}` does more than clip the norm of the gradient", module, call)


def _counts(module: Module, call: ast.Call) -> bool:
    """True if an expression reads the sizes of the parameters."""
    statement = statement_of(module, call)
    sizes = any(
        isinstance(each, ast.Attribute) and each.attr in ("numel", "nelement") for each in ast.walk(statement)
    )
    return sizes and isinstance(statement, ast.Assign | ast.Expr | ast.Return)


def _check_other(context: RewriteContext, use: ModelUse, call: ast.Call | None, within: Iteration) -> None:
    """Refuses uses other than reading attributes, or calling methods that do not train."""
    module, top = use.module, use.parent
    names: set[str] = set()
    while isinstance(top, ast.Attribute | ast.Subscript):
        if not isinstance(top.ctx, ast.Load):
            raise refusal(f"`{text_of(top)}` is set in the model of one run", module, top)
        names |= {top.attr} if isinstance(top, ast.Attribute) else set()
        top = module.parents[top]
    if names & _PARTS or isinstance(top, ast.For):
        raise refusal(f"`{text_of(use.parent)}` is a part of the model of one run", module, use.node)
    called = isinstance(top, ast.Call) and last_name(top.func) in names
    if not called or without_gradients(module, use.node):
        return
    if call is None or not _only_evaluates(context, last_name(call.func)):
        raise refusal(f"`{text_of(top)}` may change the model of one run", module, use.node)


def _only_evaluates(context: RewriteContext, name: str) -> bool:
    """True if the methods of this name in the program are decorated with ``no_grad``."""
    methods = [
        (module, node)
        for module, node in context.program.nodes_of(ast.FunctionDef)
        if node.name == name and isinstance(module.parents.get(node), ast.ClassDef)
    ]
    return bool(methods) and all(without_gradients(module, node.body[0]) for module, node in methods)
