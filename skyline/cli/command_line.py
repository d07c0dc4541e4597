"""Command lines: options, a launcher, what-ifs, and the script's own arguments, which stay as typed."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.bounded_read import LARGEST_TEXT_BYTES, read_bounded
from skyline.cli.streams import say
from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.whatif.question import BATCH_SIZE, Choice, Question, whole_number

if TYPE_CHECKING:
    from skyline.launchers.launch import Launch

SCRIPT_SUFFIXES = (".py", ".pyw", ".ipynb")


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
    """Skyline's own options, and everything from the script on, as typed.

    The script is the first word that is neither an option nor the value of one, or ``-m`` before the name of
    a module. ``--`` is allowed before the script and directly after it, as in other commands. argparse itself would
    also take options of the same name that follow the script.
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
            return list(arguments[:index]), _without_mark(arguments[index + 1 :])
        if not word.startswith("-") or word in {"-", "-m"}:
            break
        alone = word in perhaps and arguments[index + 1 : index + 2] and arguments[index + 1].startswith("-")
        index += 2 if word in with_value and not alone else 1
    return list(arguments[:index]), _without_mark(arguments[index:])


def _without_mark(words: Sequence[str]) -> list[str]:
    """A script and its arguments, without ``--`` between them. In the words of a launcher, ``--`` may be needed."""
    if not words:
        return []
    head = 2 if words[0] == "-m" else 1 if Path(words[0]).suffix in SCRIPT_SUFFIXES else 0
    marked = bool(head) and list(words[head : head + 1]) == ["--"]
    return [*words[:head], *words[head + marked :]]


@dataclass(frozen=True, slots=True)
class TypedWords:
    """The words of a command. ``ours`` are Skyline's words; ``arguments`` are the script's, None if there are none.

    ``marked``: ``--`` precedes the script's arguments. ``launch`` describes how a launcher in the command starts the
    script; ``launcher`` are the launcher's words.
    """

    ours: list[str]
    arguments: tuple[str, ...] | None = None
    script: str = ""
    marked: bool = False
    launch: Launch | None = None
    launcher: tuple[str, ...] = ()


def split_after_names(
    arguments: Sequence[str], command: argparse.ArgumentParser, *, names: bool = True
) -> TypedWords:
    """Skyline's words, and the script's arguments: all words from the first that is not Skyline's after the script.

    Skyline's words are the command's options and, with ``names``, what-ifs. An existing file is not a what-if. ``--``
    before the script's arguments is allowed. A launcher with its options may precede the script.
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
                from skyline.launchers.launch import is_launcher

                if is_launcher(arguments[index:]):
                    return _launched_words(arguments, index, command, names=names)
            elif script and (not names or _is_file_alone(name)):
                return TypedWords(list(arguments[:index]), tuple(arguments[index:]), script)
            script = script or word
        elif option is None and script:
            return TypedWords(list(arguments[:index]), tuple(arguments[index:]), script)
        index += 1 if option is None or equals else 1 + _values_of(option)
    return TypedWords(list(arguments), None, script)


def _launched_words(
    arguments: Sequence[str], at: int, command: argparse.ArgumentParser, *, names: bool
) -> TypedWords:
    """The words of a command with a launcher at index ``at``, split as without the launcher, and the launch."""
    from skyline.launchers.launch import launch_of

    launch = launch_of(arguments[at:])
    script, typed = str(_launched_script(launch)), launch.typed
    found = split_after_names([*arguments[:at], script, *typed], command, names=names)
    return replace(
        found,
        arguments=(*launch.first, *(found.arguments or ())) if launch.first else found.arguments,
        launch=launch,
        launcher=tuple(arguments[at : len(arguments) - len(typed) - (1 if launch.script else 2)]),
    )


def read_launch(words: Sequence[str], options: argparse.Namespace) -> tuple[Path, Launch]:
    """The script of a command, and its launch. The launch is also stored in the options for ``request_of``."""
    from skyline.launchers.launch import launch_of

    launch = launch_of(words)
    keep_launch(options, launch)
    return _launched_script(launch, options.interpreter), launch


def _launched_script(launch: Launch, interpreter: str | None = None) -> Path:
    """The file that a launch runs. The file of a module is searched for from the working directory."""
    if launch.script:
        return Path(launch.script)
    from skyline.capture.interpreter import module_file, resolve_interpreter

    here = Path.cwd()
    try:
        return module_file(launch.module, here)
    except UsageError:
        python = interpreter or launch.interpreter
        return module_file(launch.module, here, resolve_interpreter(here / "__main__.py", python))


def keep_launch(options: argparse.Namespace, launch: Launch | None) -> None:
    """Store a launch in the options. Its interpreter takes precedence over the project's."""
    options.launch = launch
    if launch is not None:
        options.interpreter = options.interpreter or launch.interpreter


def _values_of(option: argparse.Action) -> int:
    """The number of words that follow an option as its values."""
    return option.nargs if isinstance(option.nargs, int) else 1


def parse_after_names(
    arguments: Sequence[str], command: argparse.ArgumentParser, *, names: bool = True
) -> tuple[argparse.Namespace, tuple[str, ...] | None]:
    """The options of a command, and the script's arguments (``split_after_names``).

    Prints a remark about Skyline's options among the script's arguments. Sets ``launch`` of the options if the
    command has a launcher.
    """
    typed = split_after_names(arguments, command, names=names)
    options = command.parse_intermixed_args(typed.ours) if names else command.parse_args(typed.ours)
    keep_launch(options, typed.launch)
    options.launcher = typed.launcher
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
    """True if there is a file but no what-if or rewrite of that name."""
    if not Path(word).exists():
        return False
    from skyline.rewrite.registry import entries
    from skyline.whatif.registry import whatifs

    return word != BATCH_SIZE and word not in whatifs() and word not in entries()


_USUAL = ("skyline estimate", "does not change the time of an iteration")
_WITHOUT_WHATIF = {"fsdp": ("skyline plan", "needs several GPUs")}
"""For names without a what-if, the command to use instead and the reason."""


def parse_question(names: Sequence[str], *, rewrites: bool = False) -> Question:
    """A question from words such as ``batch_size=64 amp=bf16``. ``rewrites`` also allows changes without a what-if.

    Raises UsageError for an unknown name before anything is run. The message lists the known names.
    """
    choices = [Choice.parse(name) for name in names]
    for choice in choices:
        _check_known(choice.name, rewrites)
    seen: set[str] = set()
    for choice in choices:
        if choice.name in seen:
            raise UsageError(f"{choice.name} is given twice", hint="Name each what-if once.")
        seen.add(choice.name)
    sizes = [choice for choice in choices if choice.name == BATCH_SIZE]
    for size in sizes:
        _check_batch_size(size.value)
    return Question.of(choices)


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


def _check_batch_size(text: str) -> None:
    if not text.lstrip("+-").isdecimal():
        raise UsageError(
            f"{text!r} is not a batch size", hint="Write a whole number, for example batch_size=64."
        )
    whole_number(BATCH_SIZE, text)


_MOST_FILES = 200


def say_misplaced(
    command: argparse.ArgumentParser,
    script: Path | None,
    arguments: Sequence[str],
    *,
    marked: bool,
    quiet: bool,
    after: str = "the script's name",
) -> None:
    """Tell the user which of Skyline's options are among the script's ``arguments`` and are passed to the script.

    ``marked``: ``--`` precedes the arguments, so they are meant for the script. ``after`` names the word after which
    words belong to the script. Raises UsageError if the script would run instead of being predicted.
    """
    if marked or script is None or not script.is_file():
        return
    found = misplaced(arguments, command._actions, script)  # pyright: ignore[reportPrivateUsage]
    for remark in remarks(found, command.prog, after):
        say(f"skyline: {remark}", quiet=quiet)


def misplaced(
    arguments: Sequence[str], options: Iterable[argparse.Action], script: Path
) -> dict[str, str | None]:
    """Skyline's long options with their values among the script's arguments, without those that the script may know."""
    # Not --help: every program has it.
    ours = {word for option in options for word in option.option_strings if word.startswith("--")} - {
        "--help"
    }
    found: dict[str, str | None] = {}
    for index, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name in ours:
            following = arguments[index + 1] if index + 1 < len(arguments) else None
            found.setdefault(name, value if equals else following)
    return {name: value for name, value in found.items() if not _known_to(script, name)} if found else found


def remarks(
    found: dict[str, str | None], command: str = "skyline profile", after: str = "the script's name"
) -> list[str]:
    """The remarks on misplaced options. Raises UsageError if the script would train instead of being predicted."""
    given = found.get("--gpu")
    # A number is a device, as many scripts expect it after their own --gpu.
    if "--gpu" in found and not re.fullmatch(r"[\d,]+", given or ""):
        name = given or "NAME"
        raise UsageError(
            f"--gpu follows {after}, so it would be passed to the script, and the script would run here",
            hint=f"Write {command} --gpu {name} SCRIPT. If the script has an option --gpu, write -- before {after}.",
        )
    return [
        f"{name} after {after} is passed to the script; put options of Skyline before it" for name in found
    ]


def _known_to(script: Path, option: str) -> bool:
    """True if the script or a file next to it mentions the option as a command-line word, a name or a field."""
    words = "[-_]".join(re.escape(word) for word in option.removeprefix("--").split("-"))
    told = re.compile(rf"(?:--|[\"'.]){words}\b|^\s*{words}\s*[:=]", re.MULTILINE)
    try:
        beside = sorted(path for path in script.parent.glob("*.py") if path != script)
    except OSError:
        beside = []
    for path in [script, *beside[:_MOST_FILES]]:
        try:
            if told.search(read_bounded(path, LARGEST_TEXT_BYTES).decode("utf-8", "replace")):
                return True
        except OSError:
            continue
    return False


def without(words: Sequence[str], options: Sequence[argparse.Action]) -> tuple[str, ...]:
    """The words of a command line without these options and their values."""
    left_out = {name: option for option in options for name in option.option_strings}
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        option = left_out.get(name)
        if option is None:
            kept.append(word)
        elif option.nargs != 0 and not equals:
            next(rest, None)
    return tuple(kept)
