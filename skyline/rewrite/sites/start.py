"""The place for a script's settings, and the settings that it already makes."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import set_literal
from skyline.rewrite.blocks import insert_after, insert_before
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.imports import usable
from skyline.rewrite.unwrapping import without_statements
from skyline.source.arguments import qualified_name
from skyline.source.program import Module
from skyline.source.scope import is_main_guard
from skyline.source.text import TextEdit, is_text, text_of


def calls_of(context: RewriteContext, *names: str) -> list[tuple[Module, ast.Call]]:
    """Every call in the program of a function with one of these full names, such as ``torch.set_num_threads``."""
    return [
        (module, call)
        for module, call in context.program.nodes_of(ast.Call)
        if qualified_name(module, call.func) in names
    ]


def assignments_of(context: RewriteContext, name: str) -> list[tuple[Module, ast.Assign]]:
    """Every assignment in the program to the full name ``name``, such as ``torch.backends.cudnn.benchmark``."""
    return [
        (module, node)
        for module, node in context.program.nodes_of(ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute) and qualified_name(module, target) == name
    ]


def at_start(
    context: RewriteContext, target: str, write: str, *more: str, once: bool = False
) -> tuple[TextEdit, ...]:
    """Adds settings at the script's start: ``write`` with ``{0}`` for the name of ``target``, then of ``more``.

    They go after the imports. If worker processes that import the script must not run them again (``once``),
    they go under ``if __name__ == "__main__":``, if there is one.
    """
    module = context.program.script
    body = module.tree.body
    if not body:
        raise RewriteRefused("The script is empty", file=module.path)
    guard = next((each for each in body if isinstance(each, ast.If) and is_main_guard(each)), None)
    last = _last_import(module) or (body[-1] if all(map(is_text, body)) else None)
    if once and guard is not None:
        place, behind = guard.body[0], False
    elif last is not None:
        place, behind = last, True
    else:
        place, behind = next(each for each in body if not is_text(each)), False
    names = [usable(module, each, place, behind=behind) for each in (target, *more)]
    lines = write.format(*(each.text for each in names)).splitlines()
    # An added import may have the same place, and comes before.
    imports = tuple(edit for each in names for edit in each.edits)
    return (*imports, *(insert_after if behind else insert_before)(module, place, *lines))


def without_calls(calls: list[tuple[Module, ast.Call]], off: str = "") -> tuple[TextEdit, ...]:
    """Removes the statements that are these calls; refused if one is part of anything larger.

    In functions and under conditions, where no rewrite adds such a statement, the argument becomes ``off``
    instead, if ``off`` is known.
    """
    found: list[tuple[Module, ast.stmt]] = []
    edits: list[TextEdit] = []
    for module, call in calls:
        statement = module.parents.get(call)
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if off and len(given) == 1 and not _is_at_top(module, statement):
            edits += set_literal(module, given[0], text_of(call.func), off)
            continue
        if not isinstance(statement, ast.Expr):
            message = f"`{text_of(call)}` is part of a larger expression"
            raise refusal(message, module, call, hint="Remove it there.")
        found.append((module, statement))
    return (*edits, *_without(found))


def without_assignments(made: list[tuple[Module, ast.Assign]], off: str) -> tuple[TextEdit, ...]:
    """Removes these statements, or makes ``off`` their value; refused if one sets anything else as well.

    See ``without_calls``.
    """
    edits: list[TextEdit] = []
    for module, statement in made:
        if len(statement.targets) > 1:
            message = f"`{text_of(statement)}` sets more than this"
            raise refusal(message, module, statement, hint="Remove it there.")
        if not _is_at_top(module, statement):
            edits += set_literal(module, statement.value, text_of(statement.targets[0]), off)
    at_top: list[tuple[Module, ast.stmt]] = [pair for pair in made if _is_at_top(*pair)]
    return (*edits, *_without(at_top))


def _is_at_top(module: Module, statement: ast.AST | None) -> bool:
    """True if a statement is at the top level of its file."""
    return statement is not None and module.parents.get(statement) is module.tree


def _without(statements: list[tuple[Module, ast.stmt]]) -> tuple[TextEdit, ...]:
    modules = {id(module): module for module, _ in statements}
    return tuple(
        edit
        for key, module in modules.items()
        for edit in without_statements(module, [each for where, each in statements if id(where) == key])
    )


def _last_import(module: Module) -> ast.stmt | None:
    """The last of the imports at the start of the file, including those under ``try`` or a condition."""
    last: ast.stmt | None = None
    for each in module.tree.body:
        if isinstance(each, ast.Import | ast.ImportFrom):
            last = each
        elif is_text(each) or _only_imports(each):
            last = each if _only_imports(each) else last
        elif last is not None or not isinstance(each, ast.Assign | ast.Expr):
            later = (one for one in module.tree.body if isinstance(one, ast.Import | ast.ImportFrom))
            torch = [one for one in later if "torch" in {name.partition(".")[0] for name in _packages(one)}]
            return (
                max([last, *torch[:1]], key=lambda one: one.lineno if one else 0) if last or torch else None
            )
    return last


def _only_imports(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Try | ast.If) or (
        isinstance(statement, ast.If) and is_main_guard(statement)
    ):
        return False
    return any(isinstance(each, ast.Import | ast.ImportFrom) for each in statement.body)


def _packages(statement: ast.Import | ast.ImportFrom) -> list[str]:
    return (
        [each.name for each in statement.names]
        if isinstance(statement, ast.Import)
        else [statement.module or ""]
    )
