"""Prunes the complete model with torch-pruning; the optimizer gets the remaining parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import keyword_of
from skyline.rewrite.blocks import insert_after, statement_of, suite_of
from skyline.rewrite.compiling import compiled_mode
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.imports import usable
from skyline.rewrite.sites.iteration import function_called, iteration
from skyline.rewrite.sites.model import ModelSite, model
from skyline.rewrite.sites.passes import model_calls
from skyline.rewrite.unwrapping import without_statements
from skyline.source.arguments import qualified_name
from skyline.source.program import Module
from skyline.source.text import TextEdit
from skyline.whatif.catalogue.models.prune import CAVEAT
from skyline.whatif.catalogue.models.pruned_sizes import Cut, example_size, last_layer, pruned, why_not

# All other changes apply to the pruned model.
NAME = "prune"
ORDER = 20
_PACKAGE = "torch_pruning"
_PRUNER, _IMPORTANCE = f"{_PACKAGE}.pruner.BasePruner", f"{_PACKAGE}.importance.MagnitudeImportance"
_EINOPS = ("Rearrange", "Reduce", "EinMix")
"""Layers of einops."""
_SHAPING = ("view", "reshape")
_RATIO, _MULTIPLE = "pruning_ratio", "round_to"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Adds a pruner after the last statement that makes the model; refused if sizes or input are unknown."""
    profile = context.profile
    reason = why_not(profile)
    if reason:
        raise RewriteRefused(f"The sizes of the model are not known: {reason}", file=profile.script)
    cut = Cut.parse(value)
    for module, call in _pruners(context):
        if _written(call) != cut:
            raise refusal("The script prunes its model already", module, call, hint="Change its ratio there.")
        return ()
    size = example_size(profile)
    if size is None:
        raise RewriteRefused("The input of the model is not known", file=profile.script)
    _check_arguments(context)
    _check_sizes(context, cut)
    if compiled_mode(context) is not None:
        raise RewriteRefused(
            "The script compiles its model, but pruning must come first",
            file=profile.script,
            hint="Remove the compilation first.",
        )
    site = model(context)
    torch = usable(site.module, "torch.zeros", at=site.statement)
    pruner = usable(site.module, _PRUNER, at=site.statement)
    sizes = ", ".join(map(str, (1, *size[1:])))
    device = f"next({site.text}.parameters()).device"
    multiple = f", {_MULTIPLE}={cut.multiple}" if cut.multiple > 1 else ""
    importance = usable(site.module, _IMPORTANCE, at=site.statement)
    lines = (
        f"{pruner.text}(",
        f"    {site.text},",
        f"    ({torch.text}({sizes}, device={device}),),",
        f"    {importance.text}(),",
        f"    {_RATIO}={cut.ratio!r}{multiple},",
        f"    ignored_layers=[{site.text}.get_submodule({_inner(last_layer(profile))!r})],",
        ").step()",
        # The pruner traces the model in evaluation mode and does not switch back.
        f"{site.text}.train()",
    )
    _check(context, site)
    return tuple(
        dict.fromkeys(
            (
                *torch.edits,
                *pruner.edits,
                *importance.edits,
                *insert_after(site.module, site.statement, *lines),
            )
        )
    )


def notes(context: RewriteContext, value: str) -> tuple[str, ...]:
    """The package that the script needs, and other possible costs of pruning."""
    return ("the script needs the package torch-pruning: pip install torch-pruning", CAVEAT)


def snippet(value: str) -> str:
    """How to prune by hand."""
    ratio = Cut.parse(value).ratio if value else 0.3
    return (
        f"{_PRUNER}(\n    model, (images,), {_IMPORTANCE}(), "
        f"{_RATIO}={ratio:g}, ignored_layers=[model.head]\n).step()\nmodel.train()  # before the optimizer is made\n"
    )


def present(context: RewriteContext) -> str | None:
    """The ratio with which the script prunes its model."""
    cuts = (_written(call) for _, call in _pruners(context))
    return next((str(one) for one in cuts if one is not None), None)


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Removes the pruner; refused if it is bound to a name."""
    edits: list[TextEdit] = []
    for module, call in _pruners(context):
        statement = statement_of(module, call)
        if not isinstance(statement, ast.Expr):
            raise refusal("The pruner is assigned to a name", module, call, hint="Remove it there.")
        suite = suite_of(module, statement)
        behind = suite[suite.index(statement) + 1 :][:1]
        pruned = ast.unparse(call.args[0]) if call.args else ""
        training = [each for each in behind if ast.unparse(each) == f"{pruned}.train()"]
        edits += without_statements(module, [statement, *training])
    return tuple(edits)


def _pruners(context: RewriteContext) -> Iterator[tuple[Module, ast.Call]]:
    for module, call in context.program.nodes_of(ast.Call):
        name = qualified_name(module, call.func)
        if name.startswith(f"{_PACKAGE}.") and name.endswith("Pruner"):
            yield module, call


def _written(call: ast.Call) -> Cut | None:
    """The ratio and the multiple of a pruner if both are written as numbers."""
    ratio, multiple = (keyword_of(call, name) for name in (_RATIO, _MULTIPLE))
    values = [
        each.value.value if each and isinstance(each.value, ast.Constant) else None
        for each in (ratio, multiple)
    ]
    match values:
        case [float() as share, int() as number]:
            return Cut(share, number)
        case [float() as share, None] if multiple is None:
            return Cut(share)
        case _:
            return None


def _inner(path: str) -> str:
    """A module's path in its model, without the class that a profile puts before it."""
    return path.partition(".")[2]


def _check_arguments(context: RewriteContext) -> None:
    """Raises RewriteRefused if the training loop passes more than one argument to the model."""
    loop = iteration(context)
    for region in loop.regions:
        for call in model_calls(context, region, *region.node.body):
            itself = not function_called(context, region, call)
            if itself and len(call.args) + len(call.keywords) != 1:
                raise refusal("The model takes more than one argument", region.module, call)


def _check_sizes(context: RewriteContext, cut: Cut) -> None:
    """Raises RewriteRefused if the model writes down a size that pruning changes, or rearranges tensors with einops."""
    if any(one.class_name in _EINOPS for one in context.profile.modules):
        raise RewriteRefused(
            "The model rearranges tensors with einops, which torch-pruning does not follow",
            file=context.profile.script,
        )
    layers = pruned(context.profile, cut).layers.values()
    changing = {layer.inputs for layer in layers if layer.kept_inputs != layer.inputs}
    for module, node in context.program.nodes_of(ast.Call):
        callee = node.func
        if isinstance(callee, ast.Attribute) and callee.attr in _SHAPING and node.args:
            shape = [
                one
                for given in node.args
                for one in (given.elts if isinstance(given, ast.Tuple) else [given])
            ]
            if changing & {_written_number(one) for one in shape}:
                message = f"`{ast.unparse(node)}` writes down a size that pruning changes"
                raise refusal(message, module, node, hint="Flatten with flatten(1) instead.")


def _written_number(node: ast.expr) -> int | None:
    """The value of a number, or of a product of numbers, in the source; None for anything else."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.BinOp(left, ast.Mult(), right):
            first, second = _written_number(left), _written_number(right)
            return None if first is None or second is None else first * second
        case _:
            return None


def _check(context: RewriteContext, site: ModelSite) -> None:
    """Raises RewriteRefused if the program loads weights later, since those have other sizes."""
    for module, node in context.program.nodes_of(ast.Call):
        callee = node.func
        if not isinstance(callee, ast.Attribute) or callee.attr != "load_state_dict":
            continue
        statement = statement_of(module, node)
        later = module is not site.module or statement.lineno > site.statement.lineno
        conditional = any(isinstance(each, ast.If) for each in module.around(statement))
        if later and not conditional and ast.unparse(callee.value) == site.text:
            raise refusal("Weights are loaded into the model after it is made", module, node)
