"""Has the model compiled, in the place where it is complete, in a way that leaves its saved weights what they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import set_argument
from skyline.rewrite.blocks import insert_after, wrap_expression
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.imports import usable
from skyline.rewrite.sites.forward import model_calls
from skyline.rewrite.sites.framework import Framework, framework
from skyline.rewrite.sites.iteration import iteration
from skyline.rewrite.sites.model import ModelSite, model
from skyline.source.calls import qualified_name
from skyline.source.edit import TextEdit
from skyline.source.program import Module
from skyline.source.syntax import Function, dotted

_IN_PLACE_SINCE = (2, 2)
COMPILE = "torch.compile"
_CONDITIONS = (ast.If, ast.IfExp, ast.Try, ast.While)


def compiled(context: RewriteContext, mode: str) -> tuple[TextEdit, ...]:
    """The model compiled in that mode (empty: the usual one); no edits where it is already.

    ``model.compile()`` is written where PyTorch has it (2.2): the module stays the object that it was, and the names
    of its weights with it. ``model = torch.compile(model)`` puts ``_orig_mod.`` before all of them: it is refused
    where the script saves or loads weights.
    """
    if known := _existing(context):
        return _with_mode(context, *known, mode)
    owner = framework(context)
    if owner is not None and owner.owns_loop:
        return _by_framework(context, owner, mode)
    site = model(context)
    _check(context, site)
    given = f'mode="{mode}"' if mode else ""
    if _may_in_place(context):
        return insert_after(site.module, site.statement, f"{site.text}.compile({given})")
    _check_weights(context, site)
    name = usable(site.module, COMPILE, at=site.statement)
    second = f", {given}" if given else ""
    line = f"{site.text} = {name.text}({site.text}{second})"
    return (*name.edits, *insert_after(site.module, site.statement, line))


def _existing(context: RewriteContext) -> tuple[Module, ast.Call] | None:
    """The call that compiles the model already; raises RewriteRefused where it is made on a condition."""
    for module, node in compiling_calls(context):
        if on_condition(module, node) is not None:
            message = f"The script compiles its model on a condition (line {node.lineno})"
            raise RewriteRefused(
                message, file=module.path, line=node.lineno, hint="Let the condition hold, by its option."
            )
        return module, node
    return None


def compiling_calls(context: RewriteContext) -> Iterator[tuple[Module, ast.Call]]:
    """Every ``torch.compile(…)``, and every ``model.compile(…)`` that compiles in place."""
    for module, node in context.program.nodes_of(ast.Call):
        in_place = (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "compile"
            and not node.args
            and isinstance(module.parents.get(node), ast.Expr)
            and dotted(node.func.value) not in ("", "re", "regex", "sre_compile")
        )
        if in_place or qualified_name(module, node.func) == COMPILE:
            yield module, node


def on_condition(module: Module, node: ast.AST) -> ast.AST | None:
    """The condition that something is done on, None where it always is; the main guard is none."""
    around = (each for each in module.around(node) if isinstance(each, _CONDITIONS))
    return next((each for each in around if not _is_guard(each)), None)


def _is_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _with_mode(context: RewriteContext, module: Module, call: ast.Call, mode: str) -> tuple[TextEdit, ...]:
    return set_argument(context, module, call, "mode", f'"{mode}"') if mode else ()


def _by_framework(context: RewriteContext, owner: Framework, mode: str) -> tuple[TextEdit, ...]:
    """By the framework's own switch, or for Lightning around the model that is given to ``fit``."""
    if owner.kind == "transformers":
        edits = set_argument(context, owner.module, owner.call, "torch_compile", "True")
        if mode:
            edits += set_argument(context, owner.module, owner.call, "torch_compile_mode", f'"{mode}"')
        return edits
    fits = [
        (module, call)
        for module, call in context.program.nodes_of(ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "fit" and call.args
    ]
    if len(fits) != 1:
        message = f"{'No' if not fits else 'More than one'} `fit(model, …)` of {owner.title} was found"
        raise RewriteRefused(message, file=owner.module.path, line=owner.call.lineno)
    module, call = fits[0]
    name = usable(module, COMPILE, at=call)
    given = f', mode="{mode}"' if mode else ""
    return (*name.edits, *wrap_expression(module, call.args[0], f"{name.text}(", f"{given})"))


def _check(context: RewriteContext, site: ModelSite) -> None:
    """Raises RewriteRefused where it cannot be told that the compiled code would be run."""
    if site.value is not None and "jit" in ast.unparse(site.value):
        message = f"`{site.text}` is compiled by TorchScript"
        raise RewriteRefused(message, file=site.module.path, line=site.statement.lineno)
    loop = iteration(context)
    calls = [call for region in loop.regions for call in model_calls(context, region, *region.node.body)]
    if not calls:
        message = f"No call of `{site.text}(…)` was found in the training loop"
        raise RewriteRefused(message, file=loop.module.path, line=loop.loop.lineno)
    past = next((call for call in calls if dotted(call.func).endswith(".forward")), None)
    if past is not None:
        message = f"`{ast.unparse(past.func)}(…)` goes past what is compiled"
        hint = "Call the model itself."
        raise RewriteRefused(message, file=loop.module.path, line=past.lineno, hint=hint)


def _may_in_place(context: RewriteContext) -> bool:
    version = tuple(int(part) for part in re.findall(r"\d+", context.profile.environment.torch)[:2])
    own = any(
        node.name == "compile" and isinstance(module.parents.get(node), ast.ClassDef)
        for module, node in context.program.nodes_of(*Function.__args__)
    )
    return version >= _IN_PLACE_SINCE and not own


def _check_weights(context: RewriteContext, site: ModelSite) -> None:
    """Raises RewriteRefused where the program saves or loads weights, whose names would change."""
    for module, node in context.program.nodes_of(ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in ("state_dict", "load_state_dict") and "opt" not in dotted(node.func).lower():
            message = (
                "Compiling puts `_orig_mod.` before the names of the weights that the script saves or loads"
            )
            raise RewriteRefused(
                message,
                file=module.path,
                line=node.lineno,
                hint="Keep the model that is not compiled for that.",
                snippet=f"compiled = torch.compile({site.text})  # train this one, save {site.text}\n",
            )
