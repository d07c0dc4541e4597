"""Makes a script one of several ``torchrun`` processes: replicas, shares of the data, one reporting rank."""

from __future__ import annotations

import ast

from skyline.rewrite.blocks import insert_after, replace
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.imports import usable
from skyline.rewrite.rank_process import (
    MOVES,
    first_rank_first,
    notes_of_a_distributed_script,
    notes_of_ranks,
    one_writer,
    settled,
    started,
)
from skyline.rewrite.replicable import check_frozen, check_program, is_replicated, own_devices
from skyline.rewrite.shares import shared
from skyline.rewrite.sites.evaluation import without_gradients
from skyline.rewrite.sites.iteration import Iteration, iteration
from skyline.rewrite.sites.model import ModelSite, model
from skyline.rewrite.sites.model_uses import ModelUse, model_uses
from skyline.source.arguments import call_sites, is_method, passed, position_of, qualified_name
from skyline.source.program import Module
from skyline.source.text import Function, TextEdit, last_name, text_of
from skyline.whatif.cost.worker_exchange import Workers

NAME = "data_parallel"
ORDER = 90
"""After the others: they look for the model as it is made, and for the loader's own arguments."""
_WRAPPER = "torch.nn.parallel:DistributedDataParallel"
_OF_WRAPPER = {"parameters", "buffers", "train", "eval", "training", "zero_grad", "forward"}
"""Attributes of ``DistributedDataParallel`` that work as on the model; its parameter names differ."""
_HARMLESS = {
    "state_dict", "load_state_dict", "parameters", "named_parameters", "named_buffers", "modules", "named_modules",
    "children", "named_children", "numel", "size", "item", "apply", "detach", "clone", "cpu", "numpy", "norm",
    "get_num_params", "num_parameters", "extra_repr", "register_forward_hook",
}  # fmt: skip
"""Methods in a loop that pass no gradient of the loss, or pass it directly to a single parameter."""
_INDIFFERENT = {"print", "len", "id", "type", "hash", "repr", "str", "callable", "hasattr"}


def snippet(value: str) -> str:
    """The parts of such a script."""
    return (
        'torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")\n'
        "if torch.cuda.is_available():\n"
        '    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n'
        "model = DistributedDataParallel(model)  # model.module is the model itself\n"
        "loader = DataLoader(dataset, batch_size=N, sampler=DistributedSampler(dataset))\n"
        "loader.sampler.set_epoch(epoch)  # before each epoch\n"
        "if torch.distributed.get_rank() == 0:\n"
        "    torch.save(model.module.state_dict(), path)\n"
        "torch.distributed.destroy_process_group()\n"
    )


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Adds process group, device, wrapper, shares of the data and epochs; only rank 0 writes and prints."""
    Workers.parse(NAME, value)
    if is_replicated(context):
        return ()
    within = iteration(context)
    check_program(context, within)
    site = settled(model(context))
    check_frozen(context, site, within)
    edits = [*own_devices(context), *_wrapped(context, site)]
    uses = model_uses(context, site)
    edits += _inside(context, uses, within)
    edits += shared(context, within, site)
    edits += one_writer(context, uses, within)
    edits += first_rank_first(context)
    # The start goes behind all imports; the other parts may add imports at the same place.
    edits += started(context)
    return tuple(dict.fromkeys(edits))


def notes(context: RewriteContext, value: str) -> tuple[str, ...]:
    """The command that starts the rewritten script, and the meaning of a batch and a loss in it."""
    return notes_of_ranks(context, Workers.parse(NAME, value).count)


def notes_unchanged(context: RewriteContext, value: str) -> tuple[str, ...]:
    """The command that starts a script that has replicas already."""
    return notes_of_a_distributed_script(context, Workers.parse(NAME, value).count)


def _wrapped(context: RewriteContext, site: ModelSite) -> list[TextEdit]:
    """The wrapper. It looks for parameters without gradients if a layer took no part in the run."""
    wrapper = usable(site.module, _WRAPPER, site.statement, behind=True)
    idle = any(
        each.parameter_count and not each.trainable and not each.calls_per_iteration
        for each in context.profile.modules
    )
    more = ", find_unused_parameters=True" if idle else ""
    line = f"{site.text} = {wrapper.text}({site.text}{more})"
    return [*wrapper.edits, *insert_after(site.module, site.statement, line)]


def _inside(context: RewriteContext, uses: tuple[ModelUse, ...], within: Iteration) -> list[TextEdit]:
    """Reaches attributes of the model through ``module``; a forward pass must go through the wrapper."""
    training = {
        id(node) for region, node in within.nodes(ast.AST) if not without_gradients(region.module, node)
    }
    edits: list[TextEdit] = []
    for use in uses:
        trains = id(use.node) in training
        written = _written(
            use, trains, ended=use.module is within.module and _is_behind(use.node, within.loop)
        )
        if written:
            _check_always_wrapped(context, use, uses)
        edits += written
    if not any(use.is_forward and id(use.node) in training for use in uses):
        raise refusal("The training loop does not call the model by name", within.module, within.loop)
    return edits


def _is_behind(node: ast.expr, loop: ast.stmt) -> bool:
    return node.lineno > (loop.end_lineno or loop.lineno)


def _written(use: ModelUse, trains: bool, *, ended: bool) -> tuple[TextEdit, ...]:
    parent, module, text = use.parent, use.module, ast.unparse(use.node)
    if use.handed_to is not None:
        name = qualified_name(module, use.handed_to.func)
        if name in _INDIFFERENT or name == "torch.compile":
            return ()
        if trains:
            raise refusal(f"The loop hands the model to `{text_of(use.handed_to.func)}`", module, use.node)
        return replace(module, use.node, f"{text}.module")
    if not isinstance(parent, ast.Attribute) or parent.attr in _OF_WRAPPER:
        return ()
    call, method = _called(module, parent)
    if call is not None and method in MOVES and parent.attr == method and not ended:
        hint = "Move it where it is made, before the optimizer."
        raise refusal(
            f"`{text_of(call)}` moves the model after its optimizer was made", module, call, hint=hint
        )
    if trains and call is not None and method not in _HARMLESS:
        hint = "Call the model itself, so that its gradients are exchanged."
        raise refusal(
            f"The loop calls `{text_of(call.func)}`, which bypasses the model's own call",
            module,
            parent,
            hint=hint,
        )
    return replace(module, use.node, f"{text}.module")


def _called(module: Module, node: ast.expr) -> tuple[ast.Call | None, str]:
    """The call at the end of a chain such as ``model.encoder.layers[0](x)``, and the name before it."""
    name = last_name(node)
    while isinstance(parent := module.parents[node], ast.Attribute | ast.Subscript) and parent.value is node:
        node, name = parent, last_name(parent)
    return (parent, name) if isinstance(parent, ast.Call) and parent.func is node else (None, name)


def _check_always_wrapped(context: RewriteContext, use: ModelUse, uses: tuple[ModelUse, ...]) -> None:
    """Refuses a function that also takes other models, or is called before the wrapper exists."""
    holder, module = use.holder, use.module
    if holder.function is not None:
        known = {id(each.node) for each in uses}
        position = position_of(holder.function, holder.text, bound=is_method(module, holder.function))
        for site in call_sites(context.program, module, holder.function):
            given = passed(site.call, holder.text, position).value
            if given is not None and id(given) not in known:
                message = (
                    f"`{holder.function.name}` is also called with `{text_of(given)}`, which is not wrapped"
                )
                raise refusal(message, site.module, site.call)
        return
    around = next((each for each in module.around(use.node) if isinstance(each, Function)), None)
    since = holder.since
    if around is None or since is None or module.scope(use.node) is module.scope(since):
        return
    for site in call_sites(context.program, module, around):
        if site.scope is module.scope(since) and site.call.lineno < since.lineno:
            raise refusal(f"`{around.name}` is called before the model is complete", site.module, site.call)
