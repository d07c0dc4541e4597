"""Options of ours that were typed among the script's arguments, and so go to the script."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from skyline.bounded_read import LARGEST_TEXT_BYTES, read_bounded
from skyline.cli.streams import say
from skyline.errors import UsageError

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
    """Tell the person which of our options are among the script's ``arguments``, and go to the script.

    ``marked``: ``--`` stands before the arguments, so that they are meant for the script. ``after`` is the place from
    which on words are the script's. Raises UsageError where the script would run for real instead of being predicted.
    """
    if marked or script is None or not script.is_file():
        return
    found = misplaced(arguments, command._actions, script)  # pyright: ignore[reportPrivateUsage]
    for remark in remarks(found, command.prog, after):
        say(f"skyline: {remark}", quiet=quiet)


def misplaced(
    arguments: Sequence[str], options: Iterable[argparse.Action], script: Path
) -> dict[str, str | None]:
    """Our long options among the script's arguments that the script does not seem to know, with their values."""
    # Every program has --help.
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
    """The remarks on misplaced options. Raises UsageError where the script would train instead of being predicted."""
    given = found.get("--gpu")
    # A number is the device that a script of other people's making expects.
    if "--gpu" in found and not re.fullmatch(r"[\d,]+", given or ""):
        name = given or "NAME"
        raise UsageError(
            f"--gpu stands after {after}, so it would go to the script, which would really be run",
            hint=f"Write {command} --gpu {name} SCRIPT; or -- before {after} if --gpu is its own.",
        )
    return [
        f"{name} after {after} goes to the script; Skyline's own options come before it" for name in found
    ]


def _known_to(script: Path, option: str) -> bool:
    """True if the script or a file next to it mentions the option: as a word of a command line, a name or a field."""
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
