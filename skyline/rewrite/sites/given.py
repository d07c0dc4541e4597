"""The one literal that decides an argument, followed through variables, mappings and the command line."""

from __future__ import annotations

import ast

from skyline.rewrite.context import RewriteContext, refusal
from skyline.source.arguments import passed
from skyline.source.command_line import argument_in_force
from skyline.source.knob import KnobKind
from skyline.source.mapping import holds
from skyline.source.origin import Frame, Route
from skyline.source.program import Module
from skyline.source.resolver import Origin
from skyline.source.shared_use import reads
from skyline.source.text import text_of


def decided_by(
    context: RewriteContext, module: Module, call: ast.Call, name: str, position: int | None = None
) -> tuple[Module, ast.expr] | None:
    """The literal of an argument, with its file. None if the call does not have the argument at all.

    Refused if a mapping may set it, if several literals or a computation decide it, if the command line sets
    it, or if a variable has other uses, too.
    """
    found = behind(context, module, call, name, position)
    if found is None:
        return None
    if not isinstance(found, ast.Name | ast.Attribute | ast.Subscript):
        return module, found
    if passed(call, name, position).value is None:
        items = mapping_items(module, name)
        if len(items) == 1 and isinstance(items[0][2], ast.Constant):
            return module, items[0][2]
    return literal_behind(context, module, found, name, call)


def literal_behind(
    context: RewriteContext, module: Module, found: ast.expr, name: str, at: ast.expr
) -> tuple[Module, ast.expr]:
    """The one literal that a variable leads to; ``name`` is its meaning, ``at`` its use."""
    frame = Frame(module, module.scope(at))
    route = Route(KnobKind.CALL_ARGUMENT, name)
    origins = {
        (origin.module.path, origin.node.lineno, origin.node.col_offset): origin
        for origin in context.resolver.literals(found, frame, route)
    }
    literals = [origin for origin in origins.values() if origin.literal is not None]
    if len(literals) != 1 or literals[0].route.computed:
        message = f"{name} is `{text_of(found)}`, which does not lead to one value in the source"
        raise refusal(message, module, at, hint="Change it by hand.")
    origin = literals[0]
    check_not_commanded(context, origin)
    for holder in origin.route.holders:
        lines = sorted({use.lineno for _, use in reads(context.resolver.program, holder)})
        if len(lines) > 1:
            message = (
                f"`{holder.name}` may set more than {name}: it is read on lines {', '.join(map(str, lines))}"
            )
            raise refusal(message, origin.module, origin.node)
    return origin.module, origin.node


def check_not_commanded(context: RewriteContext, origin: Origin, wanted: str = "") -> None:
    """Refuses a literal that is the default of an option which the command line sets."""
    option, resolver = origin.route.option, context.resolver
    if option is None:
        return
    forced = argument_in_force(resolver.program, resolver.options, option, context.profile.arguments)
    if forced is not None:
        entry = context.profile.arguments[forced.index]
        message = f"The command line sets {option.name} (`{entry}`): change it there{wanted}"
        raise refusal(message, origin.module, origin.node)


def behind(
    context: RewriteContext, module: Module, call: ast.Call, name: str, position: int | None = None
) -> ast.expr | None:
    """The expression of an argument, in the call or in a mapping that is spread into it. None without it."""
    given = passed(call, name, position)
    if given.value is not None:
        return given.value
    frame, route = Frame(module, module.scope(call)), Route(KnobKind.CALL_ARGUMENT, name)
    for mapping in given.mappings:
        if isinstance(mapping, ast.Dict) and None not in mapping.keys:
            pairs = zip(mapping.keys, mapping.values, strict=True)
            found = [item for key, item in pairs if isinstance(key, ast.Constant) and key.value == name]
            if found:
                return found[-1]
        held = holds(context.resolver, mapping, frame, name, route)
        if held is None:
            message = f"`**{text_of(mapping)}` may already set {name}"
            raise refusal(message, module, call, hint="Set it where that is made.")
        if held:
            return ast.copy_location(ast.Subscript(mapping, ast.Constant(name), ast.Load()), mapping)
    return None


def mapping_items(
    module: Module, name: str
) -> list[tuple[ast.Dict | ast.Call | ast.Subscript, ast.expr | None, ast.expr]]:
    """The setters of an item of this name in a file: dictionary displays, ``dict(...)``, item assignments.

    Each has the key as written, None in ``dict(...)``, and the value.
    """
    found: list[tuple[ast.Dict | ast.Call | ast.Subscript, ast.expr | None, ast.expr]] = []
    for node in ast.walk(module.tree):
        match node:
            case ast.Dict():
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == name:
                        found.append((node, key, value))
            case ast.Call(func=ast.Name(id="dict")):
                found += [(node, None, each.value) for each in node.keywords if each.arg == name]
            case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value=str(key))) as target]) if (
                key == name
            ):
                found.append((target, target.slice, node.value))
            case _:
                continue
    return found
