"""Search for the places of a program that set numbers, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from skyline.source.arguments import call_sites, is_method, passed, position_of
from skyline.source.batch_size import has_configurator, maps_names
from skyline.source.command_line import (
    ArgumentInForce,
    Option,
    argument_in_force,
    assignment_in_force,
    later_default,
)
from skyline.source.knob import KnobKind
from skyline.source.number_place import Number, NumberPlace, number_of
from skyline.source.origin import Frame, Route
from skyline.source.program import Module, Program, ReadSource
from skyline.source.resolver import Resolver
from skyline.source.scope import BindingKind, NameScope, default_of, parameters_of
from skyline.source.text import Function, SourceText, last_name, literal_key, span_of

_OPTION, _CONSTANT, _IMPORTED, _KEYWORD, _STORED, _ENTRY, _FIELD, _DEFAULT, _LOCAL = range(9)
"""Ranks: a place overrides places with later ranks."""
_NUMBERS = ("int", "float")
_DECLARING = {"add_argument", "option", "set_defaults", "field", "Field", "DEFINE_integer", "DEFINE_float"}
"""Calls whose keywords describe a setting, but are no settings."""


def number_places(
    script: SourceText, arguments: tuple[str, ...], read: ReadSource, name: str = ""
) -> tuple[NumberPlace, ...]:
    """All places of a program that set numbers; for a ``name`` also those that reach it through other names.

    Raises:
        UsageError: the script is not Python.
    """
    program = Program(script, read)
    return tuple(_Search(program, arguments, name).places())


class _Search:
    """One search of one program."""

    def __init__(self, program: Program, arguments: tuple[str, ...], name: str) -> None:
        self._program = program
        self._arguments = arguments
        self._name = name
        self._resolver = Resolver(program)
        self._configured = has_configurator(program.script)
        self._mapped = maps_names(program)

    def places(self) -> Iterator[NumberPlace]:
        """The places, with the arguments in force."""
        for option in self._resolver.options:
            yield from self._option(option)
        for module in self._program.modules:
            for place in self._of_module(module):
                yield self._with_arguments(place)
        if self._name:
            yield from self._passed()

    def _of_module(self, module: Module) -> Iterator[NumberPlace]:
        for scope in {id(one): one for one in module.scopes.values()}.values():
            yield from self._bound(module, scope)
        for node in module.nodes:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    yield from _defaults(module, node)
                case ast.Call() if last_name(node.func) not in _DECLARING:
                    yield from _keywords(module, node)
                case ast.Dict():
                    yield from _entries(module, node)
                case ast.Assign():
                    yield from _stores(module, node)
                case _:
                    continue

    def _bound(self, module: Module, scope: NameScope) -> Iterator[NumberPlace]:
        """The names of a file, class or function: for each the last certain value, and uncertain values."""
        kind, owner, rank = KnobKind.CONSTANT, "", _CONSTANT if module is self._program.script else _IMPORTED
        if isinstance(scope.node, ast.ClassDef):
            kind, owner, rank = KnobKind.DATACLASS_FIELD, scope.node.name, _FIELD
        elif isinstance(scope.node, Function):
            owner, rank = scope.node.name, _LOCAL
        elif isinstance(scope.node, ast.Lambda):
            return
        for name, bindings in scope.bindings.items():
            kept: list[NumberPlace] = []
            for binding in bindings:
                if binding.kind is not BindingKind.ASSIGNED or binding.value is None:
                    continue
                node = _defaulted(_unpacked(binding.value, binding.unpack))
                if not binding.conditional:
                    kept.clear()
                if node is not None and number_of(node) is not None:
                    kept.append(_place(module, node, name, kind, rank, owner))
            yield from kept

    def _option(self, option: Option) -> Iterator[NumberPlace]:
        later = later_default(self._program, option.destination)
        node = later[1] if later else option.default
        module = later[0] if later else option.module
        value = number_of(node)
        typed = last_name(passed(option.call, "type", None).value or ast.Constant("")) in _NUMBERS
        if value is None and not typed and last_name(option.call.func) != "DEFINE_integer":
            return
        flags = [flag for flag in option.flags if flag.startswith("-")]
        given = any(one.partition("=")[0] in flags for one in self._arguments)
        if given:
            value = self._given(flags)
        forced = (
            argument_in_force(self._program, self._resolver.options, option, self._arguments)
            if not flags
            else None
        )
        if not flags and forced is None:
            return
        shown = node if node is not None and number_of(node) is not None else option.call
        source = module.source if shown is node else option.module.source
        span = span_of(source, shown)
        flag = option.name if flags and (given or value is None) else ""
        for name in dict.fromkeys(
            (option.destination, *(one.lstrip("-").replace("-", "_") for one in option.flags))
        ):
            yield NumberPlace(
                name,
                KnobKind.COMMAND_LINE if flag or forced else KnobKind.ARGPARSE_DEFAULT,
                span,
                source.at(span) if shown is node else "",
                forced.value if forced else value,
                _OPTION,
                flag=flag,
                argument_index=forced.index if forced else None,
            )

    def _with_arguments(self, place: NumberPlace) -> NumberPlace:
        """The place, or the argument that overrides it by its name."""
        if place.rank == _CONSTANT and self._configured:
            return _as_flag(place, self._configured_value(place))
        mapped = place.kind in (KnobKind.PARAMETER_DEFAULT, KnobKind.DATACLASS_FIELD) and self._mapped
        forced = assignment_in_force((place.name,), self._arguments) if mapped else None
        if forced is None:
            return place
        return _as_argument(place, forced)

    def _given(self, flags: Sequence[str]) -> Number | None:
        """The number that the arguments give for an option. None if it is no number."""
        found: Number | None = None
        for index, argument in enumerate(self._arguments):
            flag, equals, text = argument.partition("=")
            if flag in flags:
                found = _read(text if equals else "".join(self._arguments[index + 1 : index + 2]))
        return found

    def _configured_value(self, place: NumberPlace) -> Number | None:
        """The last number of a constant after `configurator.py`, from the command line's files and options."""
        value = place.value
        for argument in self._arguments:
            flag, equals, text = argument.partition("=")
            if equals and flag == f"--{place.name}":
                value = _read(text)
            elif not equals and argument.endswith(".py"):
                module = self._program.open(Path(self._program.script.path).parent / argument)
                for binding in module.top.bindings.get(place.name, ()) if module else ():
                    value = number_of(binding.value)
        return value

    def _passed(self) -> Iterator[NumberPlace]:
        """Numbers that reach a parameter or keyword of the wanted name: by position, or through other names."""
        for module, call in self._program.nodes_of(ast.Call):
            for keyword in call.keywords if last_name(call.func) not in _DECLARING else ():
                if keyword.arg == self._name:
                    yield from self._origins(module, keyword.value, last_name(call.func))
        for module, node in self._program.nodes_of(ast.FunctionDef):
            if self._name not in {parameter.arg for parameter in parameters_of(node)}:
                continue
            position = position_of(node, self._name, bound=is_method(module, node))
            for site in call_sites(self._program, module, node):
                value = passed(site.call, self._name, position).value
                if value is not None:
                    yield from self._origins(site.module, value, _owner(module, node))

    def _origins(self, module: Module, node: ast.expr, owner: str) -> Iterator[NumberPlace]:
        if number_of(node) is not None:
            yield _place(module, node, self._name, KnobKind.CALL_ARGUMENT, _KEYWORD, owner)
            return
        frame = Frame(module, module.scope(node))
        for origin in self._resolver.literals(node, frame, Route(KnobKind.CALL_ARGUMENT, self._name)):
            if origin.route.computed:
                continue
            if origin.route.option is not None:
                for place in self._option(origin.route.option):
                    yield _renamed(place, self._name, owner)
                continue
            kind = origin.route.kind
            holder = origin.route.holders[-1].scope if origin.route.holders else None
            constant = holder is self._program.script.top
            rank = _CONSTANT if constant else _KEYWORD
            place = _place(origin.module, origin.node, origin.route.name, kind, rank, owner)
            yield _renamed(self._with_arguments(place) if constant else place, self._name, owner)


def _place(
    module: Module, node: ast.expr, name: str, kind: KnobKind, rank: int, owner: str = ""
) -> NumberPlace:
    span = span_of(module.source, node)
    return NumberPlace(name, kind, span, module.source.at(span), number_of(node), rank, owner)


def _as_flag(place: NumberPlace, value: Number | None) -> NumberPlace:
    return replace(place, kind=KnobKind.COMMAND_LINE, value=value, flag=f"--{place.name}")


def _as_argument(place: NumberPlace, forced: ArgumentInForce) -> NumberPlace:
    return replace(
        place, kind=KnobKind.COMMAND_LINE, value=forced.value, rank=_OPTION, argument_index=forced.index
    )


def _renamed(place: NumberPlace, name: str, owner: str) -> NumberPlace:
    """The place under the name that was asked for."""
    return replace(place, name=name, rank=_KEYWORD, owner=owner)


def _read(text: str) -> Number | None:
    try:
        return number_of(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError):
        return None


def _unpacked(value: ast.expr, unpack: tuple[int, ...]) -> ast.expr | None:
    for index in unpack:
        if not isinstance(value, ast.Tuple | ast.List) or index >= len(value.elts):
            return None
        value = value.elts[index]
    return value


def _defaulted(node: ast.expr | None) -> ast.expr | None:
    """The default in ``field(default=64)``; any other expression unchanged."""
    if isinstance(node, ast.Call) and last_name(node.func) in ("field", "Field"):
        return passed(node, "default", 0).value
    return node


def _defaults(module: Module, node: Function) -> Iterator[NumberPlace]:
    for parameter in parameters_of(node):
        default = default_of(node, parameter)
        if default is not None and number_of(default) is not None:
            yield _place(
                module, default, parameter.arg, KnobKind.PARAMETER_DEFAULT, _DEFAULT, _owner(module, node)
            )


def _owner(module: Module, node: Function) -> str:
    """The name by which a function is called; for a constructor, the name of its class."""
    around = module.parents.get(node)
    return around.name if node.name == "__init__" and isinstance(around, ast.ClassDef) else node.name


def _keywords(module: Module, node: ast.Call) -> Iterator[NumberPlace]:
    callee = last_name(node.func)
    kind, rank, owner = KnobKind.CALL_ARGUMENT, _KEYWORD, callee
    if callee == "dict":
        kind, rank, owner = KnobKind.DICT_ENTRY, _ENTRY, _target(module, node)
    for keyword in node.keywords:
        if keyword.arg is not None and number_of(keyword.value) is not None:
            yield _place(module, keyword.value, keyword.arg, kind, rank, owner)


def _entries(module: Module, node: ast.Dict) -> Iterator[NumberPlace]:
    for key, value in zip(node.keys, node.values, strict=True):
        named = key.value if isinstance(key, ast.Constant) else None
        if isinstance(named, str) and number_of(value) is not None:
            yield _place(module, value, named, KnobKind.DICT_ENTRY, _ENTRY, _target(module, node))


def _stores(module: Module, node: ast.Assign) -> Iterator[NumberPlace]:
    """The places of ``config.width = 64`` and ``config["width"] = 64``."""
    if number_of(node.value) is None:
        return
    for target in node.targets:
        name = (
            target.attr
            if isinstance(target, ast.Attribute)
            else literal_key(target)
            if isinstance(target, ast.Subscript)
            else None
        )
        if name and isinstance(target, ast.Attribute | ast.Subscript):
            yield _place(module, node.value, name, KnobKind.CONSTANT, _STORED, last_name(target.value))


def _target(module: Module, node: ast.expr) -> str:
    """The name that an expression is assigned to; empty if there is none."""
    around = module.parents.get(node)
    if isinstance(around, ast.Assign):
        return last_name(around.targets[0])
    return last_name(around.target) if isinstance(around, ast.AnnAssign) else ""
