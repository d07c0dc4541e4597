"""Refuses code that fails silently once several processes train replicas of one model."""

from __future__ import annotations

import ast
import re

from skyline.errors import RewriteRefused
from skyline.rewrite.blocks import replace
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.sites.iteration import Iteration, framework
from skyline.rewrite.sites.model import ModelSite
from skyline.rewrite.sites.passes import backward, optimizer_calls, steps
from skyline.source.arguments import qualified_name
from skyline.source.setting_names import words
from skyline.source.text import TextEdit, dotted, last_name, offsets_of, text_of

_SEVERAL = {
    "DataParallel": "The script spreads its batch over the GPUs of one process",
    "FullyShardedDataParallel": "The script shards its model over several ranks",
    "fully_shard": "The script shards its model over several ranks",
    "init_process_group": "The script makes a process group, and no DistributedDataParallel by name",
    "spawn": "The script starts processes of its own",
}
_SERVICES = {"mlflow", "comet_ml", "neptune", "clearml", "aim", "deepspeed", "horovod"}
_OWN_LOSS = {"loss", "losses", "nan", "isnan", "isfinite", "item"}
_DEVICE = re.compile(r"cuda:\d*")


def is_replicated(context: RewriteContext) -> bool:
    """True if the program names DistributedDataParallel."""
    return any(
        _last(node) == "DistributedDataParallel"
        for _, node in context.program.nodes_of(ast.Name, ast.Attribute, ast.alias)
    )


def _last(node: ast.Name | ast.Attribute | ast.alias) -> str:
    return node.name.rpartition(".")[2] if isinstance(node, ast.alias) else last_name(node)


def check_program(context: RewriteContext, within: Iteration) -> None:
    """Refuses own processes, services, several optimizers or passes, and rates that follow one rank's loss."""
    used = framework(context)
    if used is not None:
        raise refusal(f"{used.title} starts the processes itself", used.module, used.call)
    for module, call in context.program.nodes_of(ast.Call):
        last = last_name(call.func)
        if last in _SEVERAL and (last != "spawn" or len(call.args) + len(call.keywords) > 1):
            raise refusal(_SEVERAL[last], module, call)
        if qualified_name(module, call.func).endswith("lr_scheduler.ReduceLROnPlateau"):
            hint = "Average its input over the ranks with torch.distributed.all_reduce."
            raise refusal("ReduceLROnPlateau would follow the loss of one rank", module, call, hint=hint)
    for module, node in context.program.nodes_of(ast.Import, ast.ImportFrom):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        for name in names:
            if name.partition(".")[0] in _SERVICES:
                raise refusal(f"Each rank would use {name} by itself", module, node)
    if len(optimizer_calls(context)) != 1:
        raise RewriteRefused("More than one optimizer steps", file=context.profile.script)
    for step in steps(context, within):
        if step.has_closure:
            message = "The optimizer calls the loss by itself, as often as this rank's loss needs it"
            raise refusal(message, step.region.module, step.call)
    site = backward(context, within)
    for keyword in site.call.keywords:
        if keyword.arg == "create_graph":
            raise refusal("Gradients of gradients are not exchanged", site.region.module, site.call)
    for region, call in within.nodes(ast.Call):
        if qualified_name(region.module, call.func) == "torch.autograd.grad":
            raise refusal("`torch.autograd.grad` exchanges no gradients", region.module, call)
    _check_ends(within)


def _check_ends(within: Iteration) -> None:
    """Refuses a loop that one rank may leave alone: the others would wait for its gradients without end."""
    for region, node in within.nodes(ast.If):
        if region.node is not within.loop:
            continue
        leaves = [each for each in ast.walk(node) if isinstance(each, ast.Break | ast.Continue | ast.Return)]
        told = {
            word
            for each in ast.walk(node.test)
            if isinstance(each, ast.Name | ast.Attribute)
            for word in words(last_name(each))
        }
        if leaves and told & _OWN_LOSS:
            hint = "Decide by what all ranks know, with torch.distributed.all_reduce."
            raise refusal(
                f"The end of the loop depends on `{text_of(node.test)}` of one rank",
                region.module,
                node,
                hint=hint,
            )


def check_frozen(context: RewriteContext, site: ModelSite, within: Iteration) -> None:
    """Refuses parameters that are frozen or unfrozen later: the wrapper checks only once which ones train."""
    inside = {id(node) for _, node in within.nodes(ast.AST)}
    for module, node in context.program.nodes_of(ast.Attribute):
        parent = module.parents[node]
        sets = node.attr == "requires_grad" and isinstance(node.ctx, ast.Store)
        calls = node.attr == "requires_grad_" and isinstance(parent, ast.Call) and parent.func is node
        if not sets and not calls:
            continue
        later = module is site.module and module.scope(node) is module.scope(site.statement)
        later = later and node.lineno > (site.statement.end_lineno or site.statement.lineno)
        if later or id(node) in inside:
            message = f"`{text_of(node)}` is set after the model was made, when its gradients are already registered"
            raise refusal(message, module, node, hint="Set it before the optimizer is made.")


def own_devices(context: RewriteContext) -> list[TextEdit]:
    """The edits that replace ``cuda:0`` by ``cuda``, since every process has its own GPU.

    Raises:
        RewriteRefused: the code names another device, or computes it.
    """
    edits: list[TextEdit] = []
    for module, node in context.program.nodes_of(ast.Constant):
        if not isinstance(node.value, str) or not _DEVICE.fullmatch(node.value):
            continue
        if node.value != "cuda:0" or isinstance(module.parents[node], ast.JoinedStr):
            hint = 'Write "cuda" there: each process has its own device.'
            raise refusal(f"The script chooses a device by number: {node.value}", module, node, hint=hint)
        start, _ = offsets_of(module.source, node)
        quote = module.source.text[start]
        edits += replace(module, node, f"{quote}cuda{quote}" if quote in ("'", '"') else '"cuda"')
    for module, call in context.program.nodes_of(ast.Call):
        by_number = (qualified_name(module, call.func) == "torch.device" and len(call.args) > 1) or (
            qualified_name(module, call.func) == "torch.cuda.set_device"
        )
        if by_number or (last_name(call.func) == "cuda" and call.args and not _names_device(call)):
            raise refusal(f"`{text_of(call)}` chooses a device by number", module, call, hint='Use "cuda".')
    for module, node in context.program.nodes_of(ast.Subscript):
        hides = isinstance(node.slice, ast.Constant) and node.slice.value == "CUDA_VISIBLE_DEVICES"
        if hides and dotted(node.value) == "os.environ" and isinstance(node.ctx, ast.Store):
            raise refusal("The script hides all GPUs but its own", module, node, hint="Remove the line.")
    return edits


def _names_device(call: ast.Call) -> bool:
    """True for ``x.cuda(device)`` with a device that is made elsewhere."""
    return isinstance(call.args[0], ast.Name) and "device" in call.args[0].id.lower()
