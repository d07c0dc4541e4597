"""Shards parameters, gradients and optimizer state over several processes: ``fully_shard``.

No what-if has this name: ``skyline plan`` gives the time of a step and the memory that a rank needs.
"""

from __future__ import annotations

import ast
import re

from skyline.errors import RewriteRefused
from skyline.plan.script_layers import repeated_modules
from skyline.rewrite.blocks import insert_after, replace
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.imports import free_name, usable
from skyline.rewrite.rank_process import (
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
from skyline.rewrite.sites.file_writes import FileWrite
from skyline.rewrite.sites.iteration import Iteration, iteration
from skyline.rewrite.sites.model import ModelSite, model
from skyline.rewrite.sites.model_uses import ModelUse, model_uses
from skyline.rewrite.sites.passes import optimizer_calls
from skyline.rewrite.sites.start import calls_of
from skyline.source.arguments import call_sites, qualified_name
from skyline.source.program import Module
from skyline.source.setting_names import words
from skyline.source.text import Function, TextEdit, dotted, last_name, text_of

NAME = "fsdp"
ORDER = 91
_SHARD = "torch.distributed.fsdp:fully_shard"
_STATES = "torch.distributed.checkpoint.state_dict"
_WRAPPERS = {"fully_shard", "FullyShardedDataParallel", "FSDP"}
_OLDEST = (2, 6)
"""The first version of PyTorch with ``torch.distributed.fsdp.fully_shard``."""
_WHOLE = {
    *("parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules"),
    *("train", "eval", "training", "zero_grad"),
}
"""Attributes of the model that have the same meaning if its parameters are sharded."""
_CALLING = {"generate", "configure_optimizers", "get_num_params", "num_parameters"}
"""Methods that call the model itself, or only count and group its parameters."""
_INDIFFERENT = {"print", "len", "id", "type", "repr", "str", "callable", "hasattr", "isinstance"}
_COUNTED = {
    "epoch", "epochs", "step", "steps", "iter", "iters", "iteration", "iterations", "batch", "batches", "i", "it",
    "idx", "index", "every", "interval", "freq", "frequency", "save", "checkpoint", "name", "len", "num", "max",
}  # fmt: skip
"""Words in names of variables that have the same value on all ranks."""
_OPTIONS = {"args", "opt", "opts", "options", "config", "cfg", "hparams", "params"}
_DEPTH = 4
"""The greatest number of functions between a condition and the state that it leads to."""


def snippet(value: str) -> str:
    """The parts of such a script."""
    return (
        'torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")\n'
        "if torch.cuda.is_available():\n"
        '    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n'
        "for tensor in (*model.parameters(), *model.buffers()):  # all ranks start with the values of the first\n"
        "    torch.distributed.broadcast(tensor.detach(), 0)\n"
        "for block in model.blocks:\n"
        "    fully_shard(block)\n"
        "fully_shard(model)  # before the optimizer is made\n"
        "loader = DataLoader(dataset, batch_size=N, sampler=DistributedSampler(dataset))\n"
        "loader.sampler.set_epoch(epoch)  # before each epoch\n"
        "options = StateDictOptions(full_state_dict=True, cpu_offload=True)\n"
        "state = get_model_state_dict(model, options=options)  # on all ranks\n"
        "if torch.distributed.get_rank() == 0:\n"
        "    torch.save(state, path)\n"
        "torch.distributed.destroy_process_group()\n"
    )


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Adds process group, device, shards, shares of the data and epochs; only rank 0 writes and prints."""
    _ranks(value)
    if _is_sharded(context):
        return ()
    if is_replicated(context):
        raise RewriteRefused(
            "The script replicates its model with DistributedDataParallel",
            file=context.profile.script,
            hint="Write fully_shard in its place.",
        )
    within = iteration(context)
    check_program(context, within)
    _check_program(context)
    site = settled(model(context))
    check_frozen(context, site, within)
    edits = [*own_devices(context), *_sharded(context, site)]
    uses = model_uses(context, site)
    states = _States(context, uses)
    _check_uses(context, uses, within)
    edits += shared(context, within, site)
    edits += one_writer(context, uses, within, states.beforehand)
    edits += states.edits()
    edits += first_rank_first(context)
    # The start goes behind all imports; the other parts may add imports at the same place.
    edits += started(context)
    return tuple(dict.fromkeys(edits))


def notes(context: RewriteContext, value: str) -> tuple[str, ...]:
    """The command that starts the rewritten script, and the meaning of a batch and a loss in it."""
    return notes_of_ranks(context, _ranks(value))


def notes_unchanged(context: RewriteContext, value: str) -> tuple[str, ...]:
    """The command that starts a script whose model is sharded already."""
    return notes_of_a_distributed_script(context, _ranks(value))


def _ranks(value: str) -> int:
    if not value.isdecimal() or not 2 <= int(value) <= 100_000:
        raise RewriteRefused(f"{value!r} is not a number of ranks", hint=f"{NAME}=8 is for 8 GPUs.")
    return int(value)


def _is_sharded(context: RewriteContext) -> bool:
    return any(last_name(call.func) in _WRAPPERS for _, call in context.program.nodes_of(ast.Call))


def _check_program(context: RewriteContext) -> None:
    """Refuses older versions of PyTorch, and parts of a program that do not work with shards."""
    version = re.match(r"(\d+)\.(\d+)", context.profile.environment.torch)
    if version and (int(version[1]), int(version[2])) < _OLDEST:
        message = f"PyTorch {version[0]} has no fully_shard"
        raise RewriteRefused(message, file=context.profile.script, hint="It came with PyTorch 2.6.")
    for module, call in calls_of(context, "torch.compile"):
        hint = "Compile each block before it is sharded, by hand."
        raise refusal("A compiled model cannot be sharded from outside", module, call, hint=hint)
    optimizers = {
        dotted(target)
        for module, call in optimizer_calls(context)
        for target in _targets(module.parents[call])
    }
    for module, call in context.program.nodes_of(ast.Call):
        last = last_name(call.func)
        if last == "GradScaler":
            hint = "Use bfloat16, which needs no scaling."
            raise refusal("A gradient scaler would look at one rank's shards", module, call, hint=hint)
        owner = dotted(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if last in ("state_dict", "load_state_dict") and (
            owner in optimizers or "optim" in owner.rpartition(".")[2].lower()
        ):
            hint = "Use torch.distributed.checkpoint.state_dict."
            raise refusal("The optimizer's state is in shards", module, call, hint=hint)
    for module, node in context.program.nodes_of(ast.Attribute):
        if node.attr == "channels_last":
            raise refusal("Weights in channels_last cannot be sharded", module, node, hint="Remove it.")


def _targets(statement: ast.AST) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AnnAssign) else []


def _sharded(context: RewriteContext, site: ModelSite) -> list[TextEdit]:
    """Sends the first rank's initial values to all ranks, then shards each repeated block and the rest."""
    module, name = site.module, site.text
    shard = usable(module, _SHARD, site.statement, behind=True)
    distributed = usable(module, "torch.distributed", site.statement, behind=True)
    tensor, block = (free_name(module, each, "each") for each in ("tensor", "block"))
    every = f"(*{name}.parameters(), *{name}.buffers())"
    lines = [
        f"for {tensor} in {every}:  # all ranks start with the values of the first",
        f"    {distributed.text}.broadcast({tensor}.detach(), 0)",
    ]
    blocks = _blocks(context)
    if blocks is not None:
        lines += [f"for {block} in {name}{blocks}.children():", f"    {shard.text}({block})"]
    lines.append(f"{shard.text}({name})")
    return [*distributed.edits, *shard.edits, *insert_after(module, site.statement, *lines)]


def _blocks(context: RewriteContext) -> str | None:
    """The attribute that holds the repeated blocks, such as ``.transformer.h``. None if none are called."""
    modules = {each.path: each for each in context.profile.modules}
    prefix, count = repeated_modules(list(modules))
    called = [f"{prefix}{number}" for number in range(count)]
    if not count or not all(path in modules and modules[path].calls_per_iteration for path in called):
        return None
    inside = prefix.rstrip(".").split(".")[1:]
    if all(each.isidentifier() for each in inside):
        return "".join(f".{each}" for each in inside)
    return f'.get_submodule("{".".join(inside)}")'


def _check_uses(context: RewriteContext, uses: tuple[ModelUse, ...], within: Iteration) -> None:
    """Refuses code that reads a part of the model, or bypasses its call, while parameters are sharded."""
    parts = {path.split(".")[1] for each in context.profile.modules if "." in (path := each.path)}
    for use in uses:
        module, parent = use.module, use.parent
        if use.handed_to is not None:
            if qualified_name(module, use.handed_to.func) not in _INDIFFERENT:
                message = f"`{text_of(use.handed_to.func)}` gets the model, whose parameters are in shards"
                raise refusal(message, module, use.node, hint="Give it the state of the whole model.")
            continue
        if not isinstance(parent, ast.Attribute) or parent.attr in _WHOLE:
            continue
        above = module.parents[parent]
        called = isinstance(above, ast.Call) and above.func is parent
        if called and parent.attr in (*_CALLING, "state_dict"):
            continue
        if called or parent.attr in parts:
            message = f"`{text_of(parent)}` bypasses the model's own call, and its parameters are in shards"
            raise refusal(message, module, parent, hint="Call the model itself.")
    training = {
        id(node) for region, node in within.nodes(ast.AST) if not without_gradients(region.module, node)
    }
    if not any(use.is_forward and id(use.node) in training for use in uses):
        raise refusal("The training loop does not call the model by name", within.module, within.loop)


class _States:
    """The calls of ``model.state_dict()``: all ranks gather the state, and the first one gets it."""

    def __init__(self, context: RewriteContext, uses: tuple[ModelUse, ...]) -> None:
        self._uses = [
            use
            for use in uses
            if isinstance(use.parent, ast.Attribute)
            and use.parent.attr == "state_dict"
            and isinstance(use.module.parents[use.parent], ast.Call)
        ]
        for use in self._uses:
            _check_conditions(context, use.module, use.node, 0)
        self._names: dict[int, str] = {}

    def beforehand(self, write: FileWrite) -> list[str]:
        """The lines that gather the states of a file before only the first rank goes on."""
        lines: list[str] = []
        within = {id(node) for statement in write.statements for node in ast.walk(statement)}
        for use in self._uses:
            if id(use.node) in within:
                name = self._names[id(use.node)] = free_name(use.module, "model_state", "whole")
                lines.append(f"{name} = {self._joined(use)[0]}")
        return list(dict.fromkeys(lines))

    def edits(self) -> list[TextEdit]:
        """Replaces the calls by the gathered state's name, or by the gathering if no file is written."""
        edits: list[TextEdit] = []
        for use in self._uses:
            call = use.module.parents[use.parent]
            assert isinstance(call, ast.Call)
            joined, imports = self._joined(use)
            edits += imports
            edits += replace(use.module, call, self._names.get(id(use.node), joined))
        return edits

    def _joined(self, use: ModelUse) -> tuple[str, tuple[TextEdit, ...]]:
        state = usable(use.module, f"{_STATES}:get_model_state_dict", use.node)
        options = usable(use.module, f"{_STATES}:StateDictOptions", use.node)
        given = f"options={options.text}(full_state_dict=True, cpu_offload=True)"
        return f"{state.text}({ast.unparse(use.node)}, {given})", (*state.edits, *options.edits)


def _check_conditions(context: RewriteContext, module: Module, node: ast.AST, depth: int) -> None:
    """Refuses if one rank may gather a state without the others: it would wait for them without end."""
    for around in module.around(node):
        if isinstance(around, ast.If | ast.While) and not _same_on_all_ranks(around.test):
            message = f"The state is saved by `{text_of(around.test)}`, which may differ between ranks"
            hint = "Decide by what all ranks know, with torch.distributed.all_reduce, or save by epochs or steps."
            raise refusal(message, module, around, hint=hint)
        if isinstance(around, Function):
            for site in call_sites(context.program, module, around) if depth < _DEPTH else ():
                _check_conditions(context, site.module, site.call, depth + 1)
            return


def _same_on_all_ranks(test: ast.expr) -> bool:
    """True if a condition depends only on counters, options and constants."""
    inner: set[int] = set()
    for node in ast.walk(test):
        if isinstance(node, ast.Call) and last_name(node.func) != "len":
            return False
        if isinstance(node, ast.Attribute):
            inner.add(id(node.value))
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in inner:
            counted = _COUNTED & set(words(last_name(node)))
            if not counted and not _OPTIONS & set(dotted(node).split(".")):
                return False
    return True
