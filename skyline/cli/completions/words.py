"""The words of all commands, from their own parsers."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module

from skyline.lazy_dataclass import dataclass

_TAKES_NAMES = frozenset({"whatif", "apply", "verify"})
"""Commands with what-ifs after their subject."""


@dataclass(frozen=True, slots=True)
class OptionWords:
    """An option: its names, its help, and the values it takes, of which ``choices`` are known."""

    names: tuple[str, ...]
    summary: str
    takes_value: bool
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandWords:
    """A command: its options, and the words that may follow its subject.

    ``own_arguments``: what follows the script's name belongs to the script.
    """

    name: str
    summary: str
    options: tuple[OptionWords, ...]
    names: tuple[str, ...] = ()
    own_arguments: bool = False


def command_words(commands: Mapping[str, str]) -> tuple[CommandWords, ...]:
    """The words of each command of the mapping from names to summaries."""
    return tuple(_command(name, summary) for name, summary in commands.items())


def _command(name: str, summary: str) -> CommandWords:
    parser = _parser_of(name)
    options = tuple(
        OptionWords(
            tuple(action.option_strings),
            _first_line(action.help or ""),
            action.nargs != 0,
            _choices(action),
        )
        for action in parser._actions  # pyright: ignore[reportPrivateUsage]
        if action.option_strings and action.help != argparse.SUPPRESS
    )
    names = _names(name) if name in _TAKES_NAMES else ()
    return CommandWords(name, summary, options, names, "ARGS" in (parser.usage or "") and not names)


def _parser_of(command: str) -> argparse.ArgumentParser:
    with _parsers_that_print_their_help() as parsers:
        try:
            import_module(f"skyline.cli.{command}").run(["--help"])
        except SystemExit:
            pass
    (parser,) = parsers
    return parser


@contextmanager
def _parsers_that_print_their_help() -> Generator[list[argparse.ArgumentParser], None, None]:
    """Collects the parsers in place of their help: a command makes its parser when it runs."""
    found: list[argparse.ArgumentParser] = []
    original = argparse.ArgumentParser.print_help

    def collect(self: argparse.ArgumentParser, file: object = None) -> None:
        found.append(self)

    argparse.ArgumentParser.print_help = collect
    try:
        yield found
    finally:
        argparse.ArgumentParser.print_help = original


def _names(command: str) -> tuple[str, ...]:
    """What-ifs, and for ``apply`` the changes that have none: ``amp=`` with a value, ``compile`` without."""
    from skyline.rewrite.registry import entries
    from skyline.whatif.question import BATCH_SIZE
    from skyline.whatif.registry import whatifs

    known = {BATCH_SIZE, *whatifs()}
    return tuple(sorted(known | set(entries()) if command == "apply" else known))


def _choices(action: argparse.Action) -> tuple[str, ...]:
    if action.choices is not None:
        return tuple(map(str, action.choices))
    if "--gpu" in action.option_strings:
        from skyline.predict.gpus import gpus

        return tuple(spec.name for spec in gpus() if " " not in spec.name)
    if "--cluster" in action.option_strings:
        from skyline.plan.cluster import cluster_names

        return cluster_names()
    return ()


def _first_line(text: str) -> str:
    """The first clause of a help text, on one line."""
    return " ".join(text.replace("%%", "%").split()).partition(";")[0]
