"""Options of ours that were typed after the script's name, where they go to the script."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from skyline.bounded_read import LARGEST_TEXT_BYTES, read_bounded
from skyline.errors import UsageError

_MOST_FILES = 200


def misplaced(
    arguments: Sequence[str], options: Iterable[argparse.Action], script: Path
) -> dict[str, str | None]:
    """Our long options among the script's arguments that the script does not seem to know, with their values."""
    ours = {word for option in options for word in option.option_strings if word.startswith("--")}
    found: dict[str, str | None] = {}
    for index, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name in ours:
            following = arguments[index + 1] if index + 1 < len(arguments) else None
            found.setdefault(name, value if equals else following)
    return {name: value for name, value in found.items() if not _known_to(script, name)} if found else found


def remarks(found: dict[str, str | None]) -> list[str]:
    """What to tell the person. Raises UsageError where the script would train for real instead of being predicted."""
    given = found.get("--gpu")
    # A number is the device that a script of other people's making wants to be told.
    if "--gpu" in found and not re.fullmatch(r"[\d,]+", given or ""):
        name = given or "NAME"
        raise UsageError(
            "--gpu stands after the script's name, so it would go to the script, which would really be run",
            hint=f"Write skyline profile --gpu {name} SCRIPT; or -- before the script's name if --gpu is its own.",
        )
    return [
        f"{name} after the script's name goes to the script; Skyline's own options come before it"
        for name in found
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
