"""``skyline completion``: prints the script that completes command lines in a shell, and answers its requests.

Both use ``argcomplete``. When Tab is pressed, the shell starts ``skyline`` with the line in its environment.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import import_module

from argcomplete.finders import CompletionFinder
from argcomplete.lexers import split_line
from argcomplete.shell_integration import shellcode

from skyline.cli.command_line import parser, split_at_script
from skyline.cli.main import COMMANDS
from skyline.cli.streams import tell
from skyline.errors import ExitCode

_EXAMPLES = """\
  eval "$(skyline completion bash)"                      # in ~/.bashrc
  eval "$(skyline completion zsh)"                       # in ~/.zshrc
  skyline completion fish > ~/.config/fish/completions/skyline.fish"""
_COMPINIT = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"
"""Turns on the completion system of Zsh, which is off without a configuration."""


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "completion",
        "SHELL",
        "Print a script that completes commands, options, what-ifs, GPUs and clusters in your\nshell.",
        _EXAMPLES,
    )
    command.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    return command


def run(arguments: Sequence[str]) -> int:
    shell = make_parser().parse_args(arguments).shell
    script = shellcode(["skyline"], shell=shell).strip()
    tell(_COMPINIT + script if shell == "zsh" else script)
    return int(ExitCode.OK)


def answer() -> None:
    """Write the words that can complete the line in the shell, and end the process."""
    typed = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))[3]
    _Finder()(_program(typed[1:]), always_complete_options=False)


class _Finder(CompletionFinder):
    """Offers what-ifs after an option too. For argparse, an option ends the words of a positional argument."""

    def collect_completions(
        self,
        active_parsers: list[argparse.ArgumentParser],
        parsed_args: argparse.Namespace,
        cword_prefix: str,
    ) -> list[str]:
        command = active_parsers[-1]
        command.active_actions = getattr(command, "active_actions", []) or _names_of(command)  # pyright: ignore[reportAttributeAccessIssue]
        return super().collect_completions(active_parsers, parsed_args, cword_prefix)


def _program(typed: Sequence[str]) -> argparse.ArgumentParser:
    """A parser with all commands. Only the typed command has its arguments."""
    program = argparse.ArgumentParser("skyline")
    commands = program.add_subparsers()
    for name, summary in COMMANDS.items():
        # Not offered, because only other programs start it.
        if name != "receive":
            own = [_arguments(name, typed[1:])] if name in typed[:1] else []
            commands.add_parser(name, help=summary, parents=own, add_help=False, allow_abbrev=False)
    return program


def _arguments(name: str, typed: Sequence[str]) -> argparse.ArgumentParser:
    """The arguments of a command. Once the script is typed, only files, because the rest belongs to the script."""
    command: argparse.ArgumentParser = import_module(f"skyline.cli.{name}").make_parser()
    actions = command._actions  # pyright: ignore[reportPrivateUsage]
    names = _names_of(command)
    if not names and "ARGS" in (command.usage or "") and split_at_script(typed, actions)[1]:
        of_script = argparse.ArgumentParser(add_help=False)
        of_script.add_argument("arguments", nargs="*")
        return of_script
    gpus = [action for action in actions if "--gpu" in action.option_strings]
    clusters = [action for action in actions if "--cluster" in action.option_strings]
    for completed, words in ((names, partial(_names, name)), (gpus, _gpus), (clusters, _clusters)):
        for action in completed:
            action.completer = words  # pyright: ignore[reportAttributeAccessIssue]
    return command


def _names_of(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """The argument that takes what-ifs, if the command has one."""
    return [action for action in command._actions if action.dest == "names"]  # pyright: ignore[reportPrivateUsage]


def _names(command: str, **_: object) -> Iterable[str]:
    """The names of what-ifs, and for ``apply`` also of changes without a what-if."""
    from skyline.whatif.question import BATCH_SIZE
    from skyline.whatif.registry import names

    known = {BATCH_SIZE, *names()}
    if command == "apply":
        from skyline.rewrite.registry import entries

        known.update(entries())
    return sorted(known)


def _gpus(**_: object) -> Iterable[str]:
    from skyline.predict.gpus import gpus

    return (spec.name for spec in gpus())


def _clusters(**_: object) -> Iterable[str]:
    from skyline.plan.cluster import cluster_names

    return cluster_names()
