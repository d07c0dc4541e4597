"""A script as one of several processes that ``torchrun`` starts: its process group, device, files and output."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace as replaced

from skyline.rewrite.blocks import insert_after, insert_before, statement_of, suite_of, wrap
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.imports import usable
from skyline.rewrite.sites.file_writes import FileWrite, file_writes
from skyline.rewrite.sites.iteration import Iteration
from skyline.rewrite.sites.model import ModelSite
from skyline.rewrite.sites.model_uses import ModelUse
from skyline.rewrite.sites.start import at_start, calls_of
from skyline.source.text import TextEdit, dotted, last_name, text_of

MOVES = {"to", "cuda", "cpu", "half", "float", "double", "bfloat16"}
"""Methods that move or convert a model in place."""
_START = """\
if "RANK" not in {3}.environ:  # started without torchrun: a job of one process
    {3}.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
{0}.init_process_group("cpu:gloo,cuda:nccl" if {1}.cuda.is_available() else "gloo")
{2}.register({0}.destroy_process_group)
if {1}.cuda.is_available():
    {1}.cuda.set_device(int({3}.environ["LOCAL_RANK"]))
if {0}.get_rank() > 0:  # the first rank alone reports
    {4}.stdout = open({3}.devnull, "w")"""
_SILENT = {"wandb": '    {3}.environ["WANDB_MODE"] = "disabled"', "logging": "    {5}.disable()"}
"""The lines that silence further ranks at the start, by the package that is imported."""


def started(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Adds the start and end of the process group, the device, and lines that silence further ranks."""
    imported = {
        name.partition(".")[0]
        for _, node in context.program.nodes_of(ast.Import, ast.ImportFrom)
        for name in (
            [each.name for each in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        )
    }
    lines = "\n".join([_START, *(line for name, line in _SILENT.items() if name in imported)])
    more = ("torch", "atexit", "os", "sys", *(["logging"] if "logging" in imported else []))
    return at_start(context, "torch.distributed", lines, *more, once=True)


def settled(site: ModelSite) -> ModelSite:
    """The site after ``net = model.to(device)``, which moves the model itself: its parameters exist there."""
    suite = suite_of(site.module, site.statement)
    for each in suite[suite.index(site.statement) + 1 :]:
        call = each.value if isinstance(each, ast.Assign) else None
        callee = call.func if isinstance(call, ast.Call) else None
        if (
            not isinstance(callee, ast.Attribute)
            or callee.attr not in MOVES
            or dotted(callee.value) != site.text
        ):
            break
        site = replaced(site, statement=each)
    return site


def one_writer(
    context: RewriteContext,
    uses: tuple[ModelUse, ...],
    within: Iteration,
    beforehand: Callable[[FileWrite], Sequence[str]] = lambda _: (),
) -> list[TextEdit]:
    """Lets only the first rank write files; the others wait for it before anything is read back.

    ``beforehand`` gives the lines that all ranks run before a file is written.
    """
    edits: list[TextEdit] = []
    forward = {id(use.node) for use in uses if use.is_forward or use.holder.function is not None}
    forward -= {id(use.node) for use in uses if _is_state(use)}
    writes = file_writes(context)
    for each in writes:
        nodes = [node for statement in each.statements for node in ast.walk(statement)]
        if any(node is within.loop or id(node) in forward for node in nodes):
            message = "A file is open around work that all ranks must do together"
            raise refusal(message, each.module, each.statements[0], hint="Open it where it is written.")
        distributed = usable(each.module, "torch.distributed", each.statements[0])
        edits += distributed.edits
        header = f"if {distributed.text}.get_rank() == 0:"
        edits += wrap(each.module, each.statements, header, before=beforehand(each))
    if writes:
        for module, call in calls_of(context, "torch.load"):
            if any(isinstance(around, ast.ClassDef) for around in module.around(call)):
                continue
            statement = statement_of(module, call)
            distributed = usable(module, "torch.distributed", statement)
            edits += distributed.edits
            edits += insert_before(module, statement, f"{distributed.text}.barrier()")
    return edits


def first_rank_first(context: RewriteContext) -> list[TextEdit]:
    """Lets the first rank download files while the others wait; the others then find the files."""
    edits: list[TextEdit] = []
    done: set[int] = set()
    for module, call in context.program.nodes_of(ast.Call):
        loads = any(
            each.arg == "download" and not (isinstance(each.value, ast.Constant) and not each.value.value)
            for each in call.keywords
        )
        if not loads:
            continue
        statement = statement_of(module, call)
        if id(statement) in done:
            continue
        done.add(id(statement))
        if isinstance(statement, ast.Return | ast.For | ast.With | ast.If):
            hint = "Assign the dataset to a name first."
            raise refusal(
                f"`{text_of(call)}` downloads files, which the first rank must do before the others",
                module,
                call,
                hint=hint,
            )
        distributed = usable(module, "torch.distributed", statement)
        rank, barrier = f"{distributed.text}.get_rank()", f"{distributed.text}.barrier()"
        edits += distributed.edits
        edits += insert_before(
            module, statement, f"if {rank} > 0:  # the first rank downloads first", f"    {barrier}"
        )
        edits += insert_after(module, statement, f"if {rank} == 0:", f"    {barrier}")
    return edits


def notes_of_ranks(context: RewriteContext, count: int) -> tuple[str, ...]:
    """The command that starts the rewritten script, and the meaning of a batch and a loss in it."""
    script = _file(context)
    size = context.profile.batch_size
    batch = f"batch of {size}, so that an update uses {count * size} samples" if size else "whole batch"
    found = [
        f"{_command(context, count)} (python {script} still runs one process)",
        f"each rank takes a {batch}; loss and learning rate are those of the script, and only rank 0 prints",
    ]
    if any("BatchNorm" in each.class_name for each in context.profile.modules):
        found.append(
            "batch normalization uses each rank's own samples; "
            "on GPUs torch.nn.SyncBatchNorm uses those of all ranks"
        )
    if any(
        each.arg == "reduction" and isinstance(each.value, ast.Constant) and each.value.value == "sum"
        for _, call in context.program.nodes_of(ast.Call)
        for each in call.keywords
    ):
        found.append(
            "a loss that is a sum is averaged over the ranks: its gradient is that of one rank's batch"
        )
    return tuple(found)


def notes_of_a_distributed_script(context: RewriteContext, count: int) -> tuple[str, ...]:
    """The command that starts a script which is one of several processes already."""
    for _, call in context.program.nodes_of(ast.Call):
        if last_name(call.func) == "spawn" and len(call.args) + len(call.keywords) > 1:
            return (f"it starts its own processes: python {_file(context)}",)
    return (_command(context, count),)


def _command(context: RewriteContext, count: int) -> str:
    return f"start it with: torchrun --nproc-per-node {count} {_file(context)}"


def _file(context: RewriteContext) -> str:
    return context.profile.script.replace("\\", "/").rpartition("/")[2]


def _is_state(use: ModelUse) -> bool:
    """True for ``model.state_dict``, whose value is computed before the file is written."""
    return isinstance(use.parent, ast.Attribute) and use.parent.attr == "state_dict"
