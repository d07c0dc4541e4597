"""A setting in a file that the run read, or in a literal with the setting's name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePath

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import replace_value
from skyline.rewrite.context import RewriteContext
from skyline.source.command_line import argument_in_force, override_in_force
from skyline.source.knob import KnobKind, SettingPlace
from skyline.source.members import field_default
from skyline.source.origin import Frame, Route
from skyline.source.program import Module
from skyline.source.resolver import Origin
from skyline.source.scope import default_of, parameters_of
from skyline.source.setting_names import Setting, rank
from skyline.source.settings_file import setting_edit
from skyline.source.text import TextEdit

_PARSED = ast.Call(ast.Attribute(ast.Name("<parser>", ast.Load()), "parse_args", ast.Load()), [], [])
"""The result of any parser. No variable has such a name, so only the options are looked up."""


def configured_place(context: RewriteContext, setting: Setting) -> SettingPlace | None:
    """The one place in a settings file that holds a setting with the value of the run. None without one.

    Raises RewriteRefused if several places hold it.
    """
    found = next((each for each in context.profile.configured if each.name == setting.value), None)
    if found is None or not found.places:
        return None
    best, *others = found.places
    if others:
        listed = ", ".join(place.words for place in found.places[:3])
        count = len(found.places)
        message = f"{setting.value} is {found.value} in {count} places that the run read: {listed}"
        raise RewriteRefused(message, file=best.file, hint="Change the right one by hand.")
    return best


def place_edit(
    context: RewriteContext, setting: Setting, place: SettingPlace, value: int
) -> tuple[TextEdit, ...]:
    """The edit of the value in a settings file; refused where the command line sets it."""
    check_not_forced(setting, context.profile.arguments, value)
    return setting_edit(place, context.text(place.file), value)


def check_not_forced(setting: Setting, arguments: tuple[str, ...], value: int) -> None:
    """Refuses if an argument of the form ``train.batch_size=16`` sets the value, which overrides any file."""
    forced = override_in_force(setting, arguments)
    if forced is not None:
        message = (
            f"The command line sets it with `{arguments[forced.index]}`: change that argument to {value}"
        )
        raise RewriteRefused(message)


def named_literal(context: RewriteContext, setting: Setting, value: int) -> Origin | None:
    """The one literal of this value that a name of the setting leads to, or is given. None without one.

    Raises RewriteRefused if there are several, or if the command line sets it.
    """
    resolver = context.resolver
    found: dict[tuple[str, int, int], Origin] = {}
    for module, node, name in _uses(context, setting):
        route = Route(KnobKind.CONSTANT, name)
        for origin in resolver.literals(node, Frame(module, module.scope(node)), route):
            if origin.literal == value and not origin.route.computed:
                found.setdefault((origin.module.path, origin.node.lineno, origin.node.col_offset), origin)
    if len(found) > 1:
        lines = ", ".join(f"{PurePath(path).name}:{line}" for path, line, _ in sorted(found))
        hint = "Change the right one by hand."
        raise RewriteRefused(f"{setting.value} is {value} in several places: {lines}", hint=hint)
    for origin in found.values():
        option, arguments = origin.route.option, context.profile.arguments
        if option is not None and argument_in_force(resolver.program, resolver.options, option, arguments):
            message = f"The command line sets {option.name}: change it there"
            raise RewriteRefused(message, file=origin.module.path, line=origin.node.lineno)
    return next(iter(found.values()), None)


def literal_edit(origin: Origin, value: int) -> tuple[TextEdit, ...]:
    """The edit of a literal; none if it has the value already."""
    if origin.literal == value:
        return ()
    return (replace_value(origin.module.source, origin.node, str(value)),)


def _uses(context: RewriteContext, setting: Setting) -> Iterator[tuple[Module, ast.expr, str]]:
    """Expressions with one of the setting's names: options, keywords, fields, entries and variables."""
    program = context.program
    for option in context.resolver.options:
        if rank(setting, (option.destination,)) is not None:
            parsed = ast.Attribute(_PARSED, option.destination, ast.Load())
            yield option.module, ast.copy_location(parsed, option.call), option.destination
    for module, node in program.nodes():
        for name, value in _named(node):
            if rank(setting, (name,)) is not None:
                yield module, value, name


def _named(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.keyword(arg=str() as name, value=value):
            yield name, value
        case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value):
            yield name, value
        case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), value=ast.expr() as value):
            yield name, field_default(value)
        case ast.Dict():
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            for parameter in parameters_of(node):
                default = default_of(node, parameter)
                if default is not None:
                    yield parameter.arg, default
        case _:
            return
