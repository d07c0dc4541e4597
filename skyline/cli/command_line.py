"""Command lines: options, a script's own arguments, which stay as typed, and what-ifs."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from skyline.cli.misplaced import say_misplaced
from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.whatif.question import BATCH_SIZE, Choice, Question, whole_number


def parser(command: str, usage: str, description: str, examples: str = "") -> argparse.ArgumentParser:
    """An argument parser in the house style: no abbreviated options, examples at the end."""
    return argparse.ArgumentParser(
        prog=f"skyline {command}",
        usage=f"skyline {command} {usage}",
        description=description,
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def split_at_script(
    arguments: Sequence[str], options: Iterable[argparse.Action]
) -> tuple[list[str], list[str]]:
    """Our own options, and from the script on everything else, as it was typed.

    The script is the first word that is neither an option nor the value of one, or ``-m`` before the name of
    a module; ``--`` before it is allowed. argparse itself would take options of the same name from behind the script.
    """
    with_value = {
        word
        for option in options
        if option.nargs != 0
        for word in option.option_strings
        if word.startswith("-")
    }
    perhaps = {word for option in options if option.nargs == "?" for word in option.option_strings}
    index = 0
    while index < len(arguments):
        word = arguments[index]
        if word == "--":
            return list(arguments[:index]), list(arguments[index + 1 :])
        if not word.startswith("-") or word in {"-", "-m"}:
            break
        alone = word in perhaps and arguments[index + 1 : index + 2] and arguments[index + 1].startswith("-")
        index += 2 if word in with_value and not alone else 1
    return list(arguments[:index]), list(arguments[index:])


@dataclass(frozen=True, slots=True)
class TypedWords:
    """The words of a command: ``ours``, the script's name, and the script's arguments, None if there are none.

    ``marked``: ``--`` stands before the script's arguments.
    """

    ours: list[str]
    arguments: tuple[str, ...] | None = None
    script: str = ""
    marked: bool = False


def split_after_names(
    arguments: Sequence[str], command: argparse.ArgumentParser, *, names: bool = True
) -> TypedWords:
    """Words of ours, and the script's arguments: from the first word after the script that is not ours on.

    Ours are the command's options and, with ``names``, what-ifs; a file that is there is not one. ``--`` before the
    script's arguments is allowed.
    """
    ours = command._option_string_actions  # pyright: ignore[reportPrivateUsage]
    script = ""
    index = 0
    while index < len(arguments):
        word = arguments[index]
        if word == "--":
            return TypedWords(list(arguments[:index]), tuple(arguments[index + 1 :]), script, marked=True)
        name, equals, _ = word.partition("=")
        option = ours.get(name)
        if not word.startswith("-") or word == "-":
            if not script and not Path(word).exists():
                from skyline.cli.launch import refuse_launcher

                refuse_launcher(word)
            elif script and (not names or _is_file_alone(name)):
                return TypedWords(list(arguments[:index]), tuple(arguments[index:]), script)
            script = script or word
        elif option is None and script:
            return TypedWords(list(arguments[:index]), tuple(arguments[index:]), script)
        index += 1 if option is None or equals else 1 + _values_of(option)
    return TypedWords(list(arguments), None, script)


def _values_of(option: argparse.Action) -> int:
    """The number of words that follow an option as its values."""
    return option.nargs if isinstance(option.nargs, int) else 1


def parse_after_names(
    arguments: Sequence[str], command: argparse.ArgumentParser, *, names: bool = True
) -> tuple[argparse.Namespace, tuple[str, ...] | None]:
    """The options of a command, and the script's arguments (``split_after_names``).

    A remark names options of ours among the script's arguments.
    """
    typed = split_after_names(arguments, command, names=names)
    options = command.parse_intermixed_args(typed.ours) if names else command.parse_args(typed.ours)
    say_misplaced(
        command,
        Path(typed.script) if typed.script else None,
        typed.arguments or (),
        marked=typed.marked,
        quiet=getattr(options, "quiet", False),
        after="the script's first argument",
    )
    return options, typed.arguments


def _is_file_alone(word: str) -> bool:
    """True if there is such a file and no what-if or rewrite of that name."""
    if not Path(word).exists():
        return False
    from skyline.rewrite.registry import entries
    from skyline.whatif.registry import whatifs

    return word != BATCH_SIZE and word not in whatifs() and word not in entries()


_USUAL = ("skyline estimate", "does not change the time of an iteration")
_WITHOUT_WHATIF = {"fsdp": ("skyline plan", "needs several GPUs")}
"""The command that answers in place of a what-if, and the reason why there is none."""


def parse_question(names: Sequence[str], *, rewrites: bool = False) -> Question:
    """``batch_size=64 amp=bf16`` as a question; with ``rewrites`` also changes that have no what-if.

    Raises UsageError for what is none, before anything is run for it; the message lists the known names.
    """
    choices = [Choice.parse(name) for name in names]
    for choice in choices:
        _check_known(choice.name, rewrites)
    seen: set[str] = set()
    for choice in choices:
        if choice.name in seen:
            raise UsageError(f"{choice.name} is asked for twice", hint="Name each what-if once.")
        seen.add(choice.name)
    sizes = [choice for choice in choices if choice.name == BATCH_SIZE]
    others = tuple(choice for choice in choices if choice.name != BATCH_SIZE)
    return Question(_batch_size(sizes[0].value) if sizes else None, others)


def _check_known(name: str, rewrites: bool) -> None:
    from skyline.whatif.registry import whatif_named

    try:
        whatif_named(name)
    except UsageError:
        from skyline.rewrite.registry import entries

        if name not in entries():
            raise
        if not rewrites:
            told_by, why = _WITHOUT_WHATIF.get(name, _USUAL)
            hint = f"{told_by} predicts its effect; skyline apply SCRIPT {name}=VALUE makes the change."
            raise UsageError(f"There is no what-if {name}: it {why}", hint=hint) from None


def _batch_size(text: str) -> int:
    if not text.lstrip("+-").isdecimal():
        raise UsageError(f"{text!r} is not a batch size", hint="Write a whole number, as in batch_size=64.")
    return whole_number(BATCH_SIZE, text)
