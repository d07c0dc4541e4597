"""Compiles each complete model, without changing the names of its saved weights."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial

from skyline.rewrite.argument import keyword_of, set_argument
from skyline.rewrite.blocks import insert_after, statement_of, wrap_expression
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.element import without_keyword
from skyline.rewrite.imports import usable
from skyline.rewrite.sites.iteration import Framework, framework, framework_switch, iteration
from skyline.rewrite.sites.model import ModelSite, fitted, model, models
from skyline.rewrite.sites.passes import model_calls
from skyline.rewrite.unwrapping import without_call, without_decorator, without_statements
from skyline.source.arguments import qualified_name
from skyline.source.program import Module
from skyline.source.text import Function, TextEdit, dotted, last_name, text_of

_IN_PLACE_SINCE = (2, 2)
COMPILE = "torch.compile"
_OF_KERAS = frozenset({"optimizer", "loss", "loss_weights", "metrics", "weighted_metrics", "jit_compile"})
"""Arguments of ``keras.Model.compile``; PyTorch's has none of them."""
_GRAPHS = {
    "retain_graph": "keeps what compiled code frees after its backward pass",
    "create_graph": "differentiates the backward pass, which compiled code does not support",
}
"""Arguments of backward passes that fail in compiled code, each with the reason."""
_CONDITIONS = (ast.If, ast.IfExp, ast.Try, ast.While)


def compiled(context: RewriteContext, mode: str) -> tuple[TextEdit, ...]:
    """The edits that compile the models in this mode (empty: the usual one); none if one is compiled already.

    ``model.compile()`` is written if PyTorch has it (since 2.2): the module stays the same object, and its
    weights keep their names. ``model = torch.compile(model)`` puts ``_orig_mod.`` before all names, so it is
    refused if the script saves or loads weights.
    """
    if known := _existing(context):
        return _with_mode(context, *known, mode)
    owner = framework(context)
    if owner is not None and owner.owns_loop:
        return _by_framework(context, owner, mode)
    sites = models(context)
    _check_backward(context)
    if len({site.text for site in sites}) < len(sites):
        model(context)  # One model that is made in several places: refuses it.
    edits = [edit for site in sites for edit in _one_compiled(context, site, mode)]
    return tuple(dict.fromkeys(edits))


def _one_compiled(context: RewriteContext, site: ModelSite, mode: str) -> tuple[TextEdit, ...]:
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
    """The call that compiles the model already; raises RewriteRefused if the call is conditional."""
    for module, node in compiling_calls(context):
        if on_condition(module, node) is not None:
            message = f"The script compiles its model on a condition (line {node.lineno})"
            raise refusal(message, module, node, hint="Set the option that makes the condition true.")
        return module, node
    return None


def compiling_calls(context: RewriteContext) -> Iterator[tuple[Module, ast.Call]]:
    """Every ``torch.compile(…)``, and every ``model.compile(…)`` that compiles in place.

    In Keras, ``compile`` sets optimizer and loss. In a program with Keras, a call counts only if it has
    PyTorch's arguments.
    """
    keras = _imports_keras(context)
    for module, node in context.program.nodes_of(ast.Call):
        in_place = (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "compile"
            and not node.args
            and not any(keyword.arg in _OF_KERAS for keyword in node.keywords)
            and (not keras or (node.keywords and all(keyword.arg in _OPTIONS for keyword in node.keywords)))
            and isinstance(module.parents.get(node), ast.Expr)
            and dotted(node.func.value) not in ("", "re", "regex", "sre_compile")
        )
        if in_place or qualified_name(module, node.func) == COMPILE:
            yield module, node


def _imports_keras(context: RewriteContext) -> bool:
    """True if a module of the program imports Keras; Keras models have their own ``compile``."""
    names = (
        name
        for _, node in context.program.nodes_of(ast.Import, ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom) and not node.level
            else [alias.name for alias in node.names]
        )
    )
    return any(name.partition(".")[0] == "keras" for name in names)


def on_condition(module: Module, node: ast.AST) -> ast.AST | None:
    """The condition around a node. None if there is none; the main guard does not count."""
    around = (each for each in module.around(node) if isinstance(each, _CONDITIONS))
    return next((each for each in around if not _is_guard(each)), None)


def _is_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _with_mode(context: RewriteContext, module: Module, call: ast.Call, mode: str) -> tuple[TextEdit, ...]:
    return set_argument(context, module, call, "mode", f'"{mode}"') if mode else ()


def _by_framework(context: RewriteContext, owner: Framework, mode: str) -> tuple[TextEdit, ...]:
    """Uses the framework's own switch, or for Lightning compiles the model that is passed to ``fit``."""
    if owner.kind == "transformers":
        edits = set_argument(context, owner.module, owner.call, "torch_compile", "True")
        if mode:
            edits += set_argument(context, owner.module, owner.call, "torch_compile_mode", f'"{mode}"')
        return edits
    module, call = fitted(context, owner)
    name = usable(module, COMPILE, at=call)
    given = f', mode="{mode}"' if mode else ""
    return (*name.edits, *wrap_expression(module, call.args[0], f"{name.text}(", f"{given})"))


def _check(context: RewriteContext, site: ModelSite) -> None:
    """Raises RewriteRefused if it is uncertain that the compiled code would run."""
    if site.value is not None and "jit" in ast.unparse(site.value):
        raise refusal(f"`{site.text}` is compiled by TorchScript", site.module, site.statement)
    loop = iteration(context)
    calls = [call for region in loop.regions for call in model_calls(context, region, *region.node.body)]
    if not calls:
        raise refusal(f"No call of `{site.text}(…)` was found in the training loop", loop.module, loop.loop)
    past = next((call for call in calls if dotted(call.func).endswith(".forward")), None)
    if past is not None:
        message = f"`{ast.unparse(past.func)}(…)` bypasses the compiled model"
        raise refusal(message, loop.module, past, hint="Call the model itself.")


def _check_backward(context: RewriteContext) -> None:
    """Raises RewriteRefused if a backward pass keeps its graph, or records one of its own: compiled code cannot."""
    for region, call in iteration(context).nodes(ast.Call):
        if last_name(call.func) not in ("backward", "grad", "manual_backward"):
            continue
        for name, trouble in _GRAPHS.items():
            given = keyword_of(call, name)
            if given is not None and not (isinstance(given.value, ast.Constant) and not given.value.value):
                message = f"`{name}={text_of(given.value)}` {trouble}"
                raise refusal(message, region.module, call, hint="Remove it if nothing needs it.")


def _may_in_place(context: RewriteContext) -> bool:
    version = tuple(int(part) for part in re.findall(r"\d+", context.profile.environment.torch)[:2])
    own = any(
        node.name == "compile" and isinstance(module.parents.get(node), ast.ClassDef)
        for module, node in context.program.nodes_of(*Function.__args__)
    )
    return version >= _IN_PLACE_SINCE and not own and not _imports_keras(context)


def _check_weights(context: RewriteContext, site: ModelSite) -> None:
    """Raises RewriteRefused if the program saves or loads weights, since their names would change."""
    for module, node in context.program.nodes_of(ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in ("state_dict", "load_state_dict") and "opt" not in dotted(node.func).lower():
            message = (
                "Compiling puts `_orig_mod.` before the names of the weights that the script saves or loads"
            )
            raise refusal(
                message,
                module,
                node,
                hint="Keep the model that is not compiled for that.",
                snippet=f"compiled = torch.compile({site.text})  # train this one, save {site.text}\n",
            )


_OPTIONS = {"fullgraph", "dynamic", "backend", "mode", "options", "disable"}
_ALWAYS = {"torch", "hasattr", "sys", "platform", "int", "callable", "version", "packaging"}
"""Names in conditions that only test which versions are installed."""

Decorated = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def compiled_mode(context: RewriteContext) -> str | None:
    """The mode in which the script compiles, ``default`` if it names none. None if it compiles nothing."""
    for module, call in _calls(context):
        condition = on_condition(module, call)
        if condition is None or _asks_what_is_installed(condition) or _ran(context):
            return _mode(call, "mode")
    for _, _, decorator in _decorators(context):
        return _mode(decorator, "mode") if isinstance(decorator, ast.Call) else "default"
    if (found := framework_switch(context, "torch_compile")) is not None:
        return _mode(found[0].call, "torch_compile_mode")
    return None


def without_compiling(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Removes all compilation; refused if an option controls it, or if code uses parts of the compiled model."""
    calls = list(_calls(context))
    _check_removable(context, calls)
    edits: list[TextEdit] = []
    statements: dict[int, tuple[Module, list[ast.stmt]]] = {}
    for module, call in calls:
        statement = module.parents.get(call)
        given = _compiled(call)
        if given is None and isinstance(statement, ast.Expr):
            statements.setdefault(id(module), (module, []))[1].append(statement)
        elif given is None:
            message = f"`{text_of(call)}` gives a decorator, not a compiled model"
            raise refusal(message, module, call, hint="Remove it there.")
        elif _is_to_itself(statement, given):
            statements.setdefault(id(module), (module, []))[1].append(statement_of(module, call))
        else:
            edits += without_call(module, call, given)
    for module, chosen in statements.values():
        edits += without_statements(module, chosen)
    for module, _, decorator in _decorators(context):
        edits += without_decorator(module, decorator)
    if framework_switch(context, "torch_compile") is not None:
        edits += context.in_turn(
            partial(_without_argument, name=name) for name in ("torch_compile_mode", "torch_compile")
        )
    return tuple(edits)


def _check_removable(context: RewriteContext, calls: list[tuple[Module, ast.Call]]) -> None:
    for module, call in calls:
        condition = on_condition(module, call)
        if condition is not None and not _asks_what_is_installed(condition):
            message = "The script compiles its model on a condition"
            raise refusal(message, module, call, hint="Set the option that makes the condition false.")
    for module, node in context.program.nodes_of(ast.Attribute):
        if node.attr == "_orig_mod":
            message = f"`{text_of(node)}` is there only in a compiled model"
            raise refusal(message, module, node, hint="Change that first.")


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
    """True if a statement is ``model = torch.compile(model)``."""
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


def _without_argument(context: RewriteContext, name: str) -> tuple[TextEdit, ...]:
    found = framework_switch(context, "torch_compile")
    given = keyword_of(found[0].call, name) if found is not None else None
    return without_keyword(found[0].module, given) if found is not None and given is not None else ()
