"""Options that a program declares, and their values on the command line."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Callable, Iterator
from typing import NoReturn

from skyline.lazy_dataclass import dataclass
from skyline.source.arguments import passed
from skyline.source.program import Module, Program
from skyline.source.setting_names import Setting, rank
from skyline.source.text import last_name

_TRAILING_INTEGER = re.compile(r"[+-]?\d[\d_]*\s*$")
_KEY_PARTS = re.compile(r"[./]")
_FLAG_ACTIONS = {"store_true", "store_false", "count", "append", "extend", "store_const", "append_const"}
_DEFINERS = {"DEFINE_integer": 1, "DEFINE_float": 1, "DEFINE_string": 1}


@dataclass(frozen=True, slots=True)
class Option:
    """One declared option: ``add_argument`` of argparse, ``click.option`` or ``DEFINE_integer`` of absl."""

    module: Module
    call: ast.Call
    flags: tuple[str, ...]
    destination: str
    default: ast.expr | None

    @property
    def name(self) -> str:
        """The name as the user types it: the first long spelling."""
        return next((flag for flag in self.flags if flag.startswith("--")), self.flags[0])


@dataclass(frozen=True, slots=True)
class ArgumentInForce:
    """The integer that the command line sets, and the index of the entry that sets it."""

    value: int
    index: int


def options_of(program: Program) -> tuple[Option, ...]:
    """Every option that the program declares with literal names."""
    found: list[Option] = []
    for name in ("add_argument", "option", *_DEFINERS):
        for module, call in program.calls_of(name):
            flags = tuple(_string(argument) for argument in call.args[:1] if name in _DEFINERS) or tuple(
                _string(argument) for argument in call.args
            )
            if not flags or not all(flags):
                continue
            if name in _DEFINERS:
                default, flags = passed(call, "default", 1).value, (f"--{flags[0]}",)
            else:
                default = passed(call, "default", None).value
            destination = _string(passed(call, "dest", None).value) or _destination(
                flags, click=name == "option"
            )
            found.append(Option(module, call, flags, destination, default))
    return tuple(found)


def later_default(program: Program, destination: str) -> tuple[Module, ast.expr] | None:
    """The value in ``parser.set_defaults(destination=…)``, which overrides the option's own default."""
    for module, call in reversed(program.calls_of("set_defaults")):
        if value := passed(call, destination, None).value:
            return module, value
    return None


def argument_in_force(
    program: Program, options: tuple[Option, ...], option: Option, arguments: tuple[str, ...]
) -> ArgumentInForce | None:
    """The value on the command line by the rules of argparse: abbreviations, ``-b16``, the last one wins."""
    parse = _parser(program, options, option)
    value = parse(arguments)
    if value is None:
        return None
    for index in reversed(range(len(arguments))):
        changed = with_value(arguments, index, value + 1)
        # Changing the effective entry changes the result.
        if changed != arguments and parse(changed) == value + 1:
            return ArgumentInForce(value, index)
    return None


def assignment_in_force(names: tuple[str, ...], arguments: tuple[str, ...]) -> ArgumentInForce | None:
    """The value of ``--name=16``, ``--name 16`` or ``name=16``, for tools that map names to settings."""
    wanted = {name.replace("-", "_") for name in names}
    for index, key, text in _assignments(arguments):
        if key.lstrip("-").replace("-", "_") in wanted and _TRAILING_INTEGER.fullmatch(text):
            return ArgumentInForce(int(text), index)
    return None


def override_in_force(setting: Setting, arguments: tuple[str, ...]) -> ArgumentInForce | None:
    """The last argument that sets a setting by its keys: ``train.batch_size=16``, ``+bs=16``, ``--data.bs 16``.

    Hydra, OmegaConf and Lightning's command line let such arguments override the values in files.
    """
    for index, key, text in _assignments(arguments):
        path = tuple(part.replace("-", "_") for part in _KEY_PARTS.split(key.lstrip("-+")) if part)
        if rank(setting, path) is not None and _TRAILING_INTEGER.fullmatch(text):
            return ArgumentInForce(int(text), index)
    return None


def name_at(arguments: tuple[str, ...], index: int) -> str:
    """The name of the setting that the value at this place sets: ``batch_size`` of ``+train.batch_size=16``."""
    key = next((key for at, key, _ in _assignments(arguments) if at == index), "")
    return _KEY_PARTS.split(key.lstrip("-+"))[-1].replace("-", "_")


def _assignments(arguments: tuple[str, ...]) -> Iterator[tuple[int, str, str]]:
    """The place of each value, the word before it and the value, from the last one on."""
    for index in reversed(range(len(arguments))):
        key, equals, text = arguments[index].partition("=")
        if not equals and index and arguments[index - 1].startswith("--"):
            key, text = arguments[index - 1], arguments[index]
        yield index, key, text


def with_value(arguments: tuple[str, ...], index: int, value: int) -> tuple[str, ...]:
    """The command line with the integer at the end of one entry replaced."""
    entry = arguments[index]
    match = _TRAILING_INTEGER.search(entry)
    # ``-b-1`` and ``--batch-1`` end in a sign that may be a dash of the name.
    start = entry.rindex(match.group().lstrip("+-")) if match else None
    changed = entry if start is None else f"{entry[:start]}{value}"
    return (*arguments[:index], changed, *arguments[index + 1 :])


class _Rejected(Exception):
    """The command line does not match the declared options."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Rejected(message)


def _parser(
    program: Program, options: tuple[Option, ...], wanted: Option
) -> Callable[[tuple[str, ...]], int | None]:
    abbreviations = not any(
        isinstance(value := passed(call, "allow_abbrev", None).value, ast.Constant) and value.value is False
        for _, call in program.calls_of("ArgumentParser")
    )
    parser = _Parser(
        add_help=False,
        conflict_handler="resolve",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=abbreviations,
    )
    for option in (*(each for each in options if each is not wanted), wanted):
        _declare(parser, option, "wanted" if option is wanted else f"other_{id(option)}", option is wanted)

    def parse(arguments: tuple[str, ...]) -> int | None:
        try:
            found = vars(parser.parse_known_args(list(arguments))[0]).get("wanted")
        except (_Rejected, argparse.ArgumentError):
            return None
        return found if isinstance(found, int) else None

    return parse


def _declare(parser: _Parser, option: Option, destination: str, is_wanted: bool) -> None:
    action = _string(passed(option.call, "action", None).value)
    nargs = passed(option.call, "nargs", None).value
    settings: dict[str, object] = {}
    if last_name(passed(option.call, "action", None).value or ast.Constant("")) == "BooleanOptionalAction":
        settings["action"] = argparse.BooleanOptionalAction
    elif action in _FLAG_ACTIONS:
        settings["action"] = action
        if action.endswith("_const"):
            settings["const"] = ""
    elif _constant(passed(option.call, "is_flag", None).value) is True:
        settings["action"] = "store_true"
    elif isinstance(nargs, ast.Constant) and isinstance(nargs.value, int | str):
        settings["nargs"] = nargs.value
    if is_wanted:
        settings["type"] = int
    positional = not option.flags[0].startswith("-")
    if positional and last_name(option.call.func) == "option":
        positional = False
    flags = [flag for flag in option.flags if flag.startswith("-")]
    try:
        if positional:
            parser.add_argument(destination, **settings)  # pyright: ignore[reportArgumentType]
        else:
            parser.add_argument(*flags, dest=destination, **settings)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        return  # a command line that ran cannot contain an option that argparse refuses


def _destination(flags: tuple[str, ...], *, click: bool) -> str:
    bare = [flag for flag in flags if not flag.startswith("-")]
    if bare and (click or len(flags) == 1):
        return bare[0].replace("-", "_")
    long = [flag for flag in flags if flag.startswith("--")]
    return (long or list(flags))[0].lstrip("-").replace("-", "_")


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _string(node: ast.expr | None) -> str:
    value = _constant(node)
    return value if isinstance(value, str) else ""
