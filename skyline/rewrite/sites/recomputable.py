"""Whether a block can be computed twice with the same result."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.refusal import refusal
from skyline.source.program import Module
from skyline.source.syntax import Function, last_name, text_of
from skyline.whatif.blocks import Blocks

_KEPT_STATE = {
    "cache",
    "caches",
    "past",
    "past_key_value",
    "past_key_values",
    "kv_cache",
    "layer_past",
    "state",
    "aux",
}
"""Names of what a block may change as it goes: computed again, it would change it twice."""


def check_arguments(module: Module, call: ast.Call, taken: set[str]) -> None:
    """Refuses arguments that ``checkpoint`` would take for itself, or that the block may change."""
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in taken:
            what = f"`**{text_of(keyword.value)}` may hold" if keyword.arg is None else f"`{keyword.arg}` is"
            raise refusal(f"{what} an argument that checkpoint takes for itself", module, call)
    for node in (*call.args, *(keyword.value for keyword in call.keywords)):
        for child in ast.walk(node):
            name = (
                child.id
                if isinstance(child, ast.Name)
                else child.attr
                if isinstance(child, ast.Attribute)
                else ""
            )
            if name in _KEPT_STATE or isinstance(child, ast.NamedExpr):
                message = f"`{text_of(node)}` may be changed by the block, which would happen twice"
                raise refusal(message, module, call)


def check_forward(context: RewriteContext, blocks: Blocks) -> None:
    """Refuses blocks whose forward pass changes what it is given, or attributes of its own, or returns no tensors."""
    facts = {fact.path: fact for fact in context.profile.modules}
    for path in blocks.paths:
        fact = facts.get(path)
        if fact is None or fact.class_line is None:
            continue
        module, line = context.place(fact.class_line)
        forward = next(
            (
                node
                for node in module.nodes
                if isinstance(node, Function)
                and line in (node.lineno, *(decorator.lineno for decorator in node.decorator_list))
            ),
            None,
        )
        if forward is None:
            raise RewriteRefused("The block's forward pass was not found", file=module.path, line=line)
        first_inside = {
            fact.path.rpartition(".")[2]: bool(fact.options.get("inplace"))
            for fact in facts.values()
            if fact.path.rpartition(".")[0] == path
        }
        _check_changes(module, forward, first_inside)
        break


def _check_changes(module: Module, forward: Function, in_place: dict[str, bool]) -> None:
    arguments = {
        each.arg for each in (*forward.args.posonlyargs, *forward.args.args, *forward.args.kwonlyargs)
    }
    own = forward.args.args[0].arg if forward.args.args else "self"
    given = arguments - {own}
    for statement in forward.body:
        for node in ast.walk(statement):
            if (reason := _changes(node, given, own, in_place)) is not None:
                raise RewriteRefused(reason, file=module.path, line=getattr(node, "lineno", forward.lineno))
        # Under its name there is now something new.
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                value = statement.value
                if isinstance(target, ast.Name) and not isinstance(value, ast.Name):
                    given = given - {target.id}


def _changes(node: ast.AST, given: set[str], own: str, in_place: dict[str, bool]) -> str | None:
    match node:
        case ast.AugAssign(target=ast.Name(id=name)) if name in given:
            return f"The block changes its input `{name}` in place"
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]) if name in given:
            return f"The block writes into its input `{name}`"
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr=attribute)]) if name == own:
            return f"The block's forward pass sets `self.{attribute}`, which would happen twice"
        case ast.AugAssign(target=ast.Attribute(value=ast.Name(id=name), attr=attribute)) if name == own:
            return f"The block's forward pass changes `self.{attribute}`, which would happen twice"
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if (
            name in given and method.endswith("_") and not method.startswith("_")
        ):
            return f"The block changes its input `{name}` in place"
        case ast.Call(func=callee, args=[ast.Name(id=name), *_], keywords=keywords) if name in given:
            switched = any(
                each.arg == "inplace" and isinstance(each.value, ast.Constant) and each.value.value is True
                for each in keywords
            )
            if switched or (isinstance(callee, ast.Attribute) and in_place.get(last_name(callee))):
                return f"The block changes its input `{name}` in place"
        case ast.Yield() | ast.YieldFrom() | ast.Await():
            return "The block's forward pass is a generator"
        case _:
            return None
    return None
