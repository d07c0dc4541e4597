"""Removes changes from the code: edits, or the reasons why a person has to remove them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from skyline.errors import RewriteRefused, SkylineError, UsageError
from skyline.rewrite.blocks import remove
from skyline.rewrite.context import ReadText, RewriteContext
from skyline.rewrite.imports import added_at
from skyline.rewrite.joint_edits import Analysed, Refused, RewritePlan
from skyline.rewrite.registry import RewriteEntry, entries, entry_named
from skyline.source.program import Module
from skyline.source.text import SourceText, TextEdit, names_in, parse


def removals(analysis: Analysed, names: Sequence[str], read: ReadText) -> RewritePlan:
    """The edits that remove changes together; ``read`` gives the present text of a file."""
    return taken_out(RewriteContext(analysis.profile, read), names)


def taken_out(context: RewriteContext, names: Sequence[str]) -> RewritePlan:
    """The edits that remove changes together, and the refused changes with their reasons."""
    context = context.tolerant()
    order = {name: index for index, name in enumerate(entries())}
    refused: dict[str, Refused] = {}
    # The outermost change comes off first.
    for name in sorted(dict.fromkeys(names), key=lambda name: -order.get(name, -1)):
        try:
            context = _taken_out(context, name)
        except SkylineError as error:
            refused[name] = Refused(name, reason_of(error))
    return RewritePlan(
        context.edits(), tuple(refused[name] for name in dict.fromkeys(names) if name in refused)
    )


def present(context: RewriteContext, name: str) -> str | None:
    """The value of a change in the code. None if the code does not have it, or if that is unknown."""
    entry = entry_named(name)
    if entry is None or entry.present is None:
        return None
    try:
        return entry.present(context.tolerant().again())
    except SkylineError:
        return None


def removal_edits(context: RewriteContext, name: str) -> tuple[TextEdit, ...] | None:
    """The edits that remove one change. None if Skyline cannot remove this kind of change from any code.

    Raises RewriteRefused with the reason if it cannot be removed from this code.
    """
    entry = entry_named(name)
    return None if entry is None or entry.remove is None else _without(context.tolerant(), entry).edits()


def reason_of(error: SkylineError) -> str:
    """The reason of a refusal and the next step, as sentences with the place in the code."""
    where = f" ({error.file}:{error.line})" if error.file and error.line else ""
    hint = f" {error.hint}" if error.hint else ""
    return f"{error.message.rstrip('.')}{where}.{hint}"


def _taken_out(context: RewriteContext, name: str) -> RewriteContext:
    entry = entry_named(name)
    if entry is None or entry.remove is None:
        raise RewriteRefused(f"Skyline cannot remove {name} from code", hint="Remove it by hand.")
    if present(context, name) is None:
        raise RewriteRefused(f"{name} was not found in the code", hint="There is nothing to remove.")
    return _without(context, entry)


def _without(context: RewriteContext, entry: RewriteEntry) -> RewriteContext:
    """The context of the next removal; raises RewriteRefused if the edited file would not be valid Python."""
    assert entry.remove is not None
    edits = entry.remove(context.again())
    if not edits:
        message = f"The place where {entry.name} is written is unknown"
        raise RewriteRefused(message, hint="Remove it by hand.")
    made = context.edited(edits)
    for path in dict.fromkeys(edit.span.file for edit in edits):
        before = context.text(path)
        try:
            parse(made.text(path))
        except UsageError as error:
            raise RewriteRefused("The changed file would not be valid Python", file=path) from error
        made = made.edited(idle_imports(before, made.text(path)))
    return made


_HOOKS = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks"
_ADDED = {
    ("torch.utils.checkpoint", "checkpoint"),
    ("torch.cuda.amp", "GradScaler"),
    (_HOOKS, "fp16_compress_hook"),
    (_HOOKS, "bf16_compress_hook"),
}
"""Names that rewrites import from modules; they reach all others through a package."""
_PACKAGES = ("torch", "torch_pruning")


def idle_imports(before: SourceText, after: SourceText) -> tuple[TextEdit, ...]:
    """The edits of ``after`` that remove imports which only the removed code used.

    An import is removed only if its text and place are exactly as a rewrite would have added it.
    """
    idle = _used(parse(before)) - _used(parse(after))
    if not idle:
        return ()
    edits: tuple[TextEdit, ...] = ()
    module = Module.of(after)
    for name in sorted(idle):
        for statement in module.tree.body:
            if _binds_only(statement, name) and _is_as_added(module, statement):
                edits += remove(module, statement)
    return edits


def _used(tree: ast.Module) -> set[str]:
    """The names that a file reads, or exports by ``__all__``."""
    names = set(names_in([tree], ast.Load))
    offered = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
    )
    texts = {each.value for value in offered for each in ast.walk(value) if isinstance(each, ast.Constant)}
    return names | {text for text in texts if isinstance(text, str)}


def _binds_only(statement: ast.stmt, name: str) -> bool:
    """True if a statement is an import that rewrites add, and binds this name."""
    if not isinstance(statement, ast.Import | ast.ImportFrom) or len(statement.names) != 1:
        return False
    alias = statement.names[0]
    if (alias.asname or alias.name) != name:
        return False
    if isinstance(statement, ast.Import):
        return alias.name in _PACKAGES and name in (alias.name, f"_{alias.name}")
    return (statement.module, alias.name) in _ADDED and not statement.level


def _is_as_added(module: Module, statement: ast.stmt) -> bool:
    """True if a rewrite that adds this import to the file without it would write exactly this file."""
    if len(module.tree.body) < 2:
        return False
    without = module.source.apply(remove(module, statement))
    try:
        bare = Module.of(without)
        package = (
            statement.module if isinstance(statement, ast.ImportFrom) else ast.unparse(statement).split()[1]
        )
        return (
            bare.source.apply(added_at(bare, ast.unparse(statement), package or "")).text
            == module.source.text
        )
    except SkylineError:
        return False
