"""Options of ours that were typed after the script's name and cannot be the script's: they are taken for ours."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from skyline.cli.misplaced import misplaced


def taken_back(
    arguments: Sequence[str], options: Iterable[argparse.Action], script: Path
) -> tuple[list[str], tuple[str, ...]]:
    """The words of ``arguments`` that are long ``options`` of ours with their values, and what is left for the script.

    An option that the script or a file next to it mentions stays the script's, as does ``--gpu 0``, a device number.
    """
    options = list(options)
    found = misplaced(arguments, options, script)
    flags = {word for option in options if option.nargs == 0 for word in option.option_strings}
    ours: list[str] = []
    left: list[str] = []
    index = 0
    while index < len(arguments):
        word = arguments[index]
        name, equals, value = word.partition("=")
        count = 1 if equals or name in flags else 2
        words = arguments[index : index + count]
        given = value if equals else words[-1]
        if name in found and not re.fullmatch(r"[\d,]+", given):
            ours += words
            index += count
        else:
            left.append(word)
            index += 1
    return ours, tuple(left)
