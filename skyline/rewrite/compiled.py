"""What the script compiles already, and the script without it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from skyline.errors import RewriteRefused
from skyline.rewrite.blocks import statement_of
from skyline.rewrite.compiling import COMPILE, compiling_calls, on_condition
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.element import without_keyword
from skyline.rewrite.keyword import keyword_of
from skyline.rewrite.sites.framework import framework
from skyline.rewrite.unwrapping import without_call, without_decorator, without_statements
from skyline.source.calls import qualified_name
from skyline.source.edit import TextEdit
from skyline.source.program import Module
from skyline.source.syntax import Function, text_of

_OPTIONS = {"fullgraph", "dynamic", "backend", "mode", "options", "disable"}
_ALWAYS = {"torch", "hasattr", "sys", "platform", "int", "callable", "version", "packaging"}
"""Names in conditions that ask for nothing but what is installed."""

Decorated = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def compiled_mode(context: RewriteContext) -> str | None:
    """The mode in which the script compiles, ``default`` where it names none; None where it compiles nothing."""
    for module, call in _calls(context):
        condition = on_condition(module, call)
        if condition is None or _asks_what_is_installed(condition) or _ran(context):
            return _mode(call, "mode")
    for _, _, decorator in _decorators(context):
        return _mode(decorator, "mode") if isinstance(decorator, ast.Call) else "default"
    if (argument := _framework_argument(context)) is not None:
        return _mode(argument[1], "torch_compile_mode")
    return None


def without_compiling(context: RewriteContext) -> tuple[TextEdit, ...]:
    """The script with nothing compiled; refused where an option decides it, or the compiled model is taken apart."""
    calls = list(_calls(context))
    _check(context, calls)
    edits: list[TextEdit] = []
    statements: dict[int, tuple[Module, list[ast.stmt]]] = {}
    for module, call in calls:
        statement = module.parents.get(call)
        given = _compiled(call)
        if given is None and isinstance(statement, ast.Expr):
            statements.setdefault(id(module), (module, []))[1].append(statement)
        elif given is None:
            message = f"`{text_of(call)}` gives a decorator, not a compiled model"
            raise RewriteRefused(message, file=module.path, line=call.lineno, hint="Take it out there.")
        elif _is_to_itself(statement, given):
            statements.setdefault(id(module), (module, []))[1].append(statement_of(module, call))
        else:
            edits += without_call(module, call, given)
    for module, chosen in statements.values():
        edits += without_statements(module, chosen)
    for module, owner, decorator in _decorators(context):
        edits += without_decorator(module, owner, decorator)
    if _framework_argument(context) is not None:
        edits += context.in_turn((_without_mode, _without_switch))
    return tuple(edits)


def _check(context: RewriteContext, calls: list[tuple[Module, ast.Call]]) -> None:
    for module, call in calls:
        condition = on_condition(module, call)
        if condition is not None and not _asks_what_is_installed(condition):
            message = "The script compiles its model on a condition"
            hint = "Make the condition false, by its option."
            raise RewriteRefused(message, file=module.path, line=call.lineno, hint=hint)
    for module, node in context.program.nodes_of(ast.Attribute):
        if node.attr == "_orig_mod":
            message = f"`{text_of(node)}` is there only in a compiled model"
            raise RewriteRefused(message, file=module.path, line=node.lineno, hint="Change that first.")


def _asks_what_is_installed(condition: ast.AST) -> bool:
    test = condition.test if isinstance(condition, ast.If) else None
    names = {each.id for each in ast.walk(test) if isinstance(each, ast.Name)} if test is not None else {""}
    return names <= _ALWAYS


def _calls(context: RewriteContext) -> Iterator[tuple[Module, ast.Call]]:
    decorators = {id(decorator) for _, _, decorator in _decorators(context)}
    for module, call in compiling_calls(context):
        by_function = qualified_name(module, call.func) == COMPILE
        options = {keyword.arg for keyword in call.keywords}
        if id(call) in decorators or not (by_function or options <= _OPTIONS):
            continue
        disabled = keyword_of(call, "disable")
        if disabled is None or not isinstance(disabled.value, ast.Constant) or not disabled.value.value:
            yield module, call


def _decorators(context: RewriteContext) -> Iterator[tuple[Module, Decorated, ast.expr]]:
    for module, owner in context.program.nodes_of(*Function.__args__, ast.ClassDef):
        for decorator in owner.decorator_list:
            callee = decorator.func if isinstance(decorator, ast.Call) else decorator
            if qualified_name(module, callee) == COMPILE:
                yield module, owner, decorator


def _compiled(call: ast.Call) -> ast.expr | None:
    given = keyword_of(call, "model")
    return call.args[0] if call.args else (given.value if given is not None else None)


def _is_to_itself(statement: ast.AST | None, given: ast.expr) -> bool:
    """Whether a statement is ``model = torch.compile(model)``."""
    return (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and ast.unparse(statement.targets[0]) == ast.unparse(given)
    )


def _mode(call: ast.Call, name: str) -> str:
    given = keyword_of(call, name)
    value = given.value.value if given is not None and isinstance(given.value, ast.Constant) else None
    return value if isinstance(value, str) else "default"


def _ran(context: RewriteContext) -> bool:
    told = any(call.name == "compile" for call in context.profile.calls)
    return told and context.as_profiled()


def _framework_argument(context: RewriteContext) -> tuple[Module, ast.Call] | None:
    owner = framework(context)
    if owner is None or owner.kind != "transformers" or not owner.takes_switches:
        return None
    given = keyword_of(owner.call, "torch_compile")
    is_on = given is not None and isinstance(given.value, ast.Constant) and given.value.value is True
    return (owner.module, owner.call) if is_on else None


def _without_mode(context: RewriteContext) -> tuple[TextEdit, ...]:
    return _without_argument(context, "torch_compile_mode")


def _without_switch(context: RewriteContext) -> tuple[TextEdit, ...]:
    return _without_argument(context, "torch_compile")


def _without_argument(context: RewriteContext, name: str) -> tuple[TextEdit, ...]:
    found = _framework_argument(context)
    given = keyword_of(found[1], name) if found is not None else None
    return without_keyword(found[0], given) if found is not None and given is not None else ()
