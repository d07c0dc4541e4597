"""What a script prints about its arguments when it does not accept them: argparse, click, typer, docopt, by hand."""

from __future__ import annotations

import re

_MOST_LINES = 20
_BEGINNING = re.compile(r"^\W*usage\s*:", re.IGNORECASE)
_COMPLAINT = re.compile(r"(?:^|\s)error:\s*(?P<words>\S.*)$", re.IGNORECASE)
_BOX_TITLE = re.compile(r"^\W*error\W*$", re.IGNORECASE)
"""The upper edge of the box that typer draws around what is wrong."""
_BOX_EDGES = " │|╭╰─-+"


def usage_text(output: str) -> str:
    """From the last line that begins with "usage:" to the end, without blank lines around it; empty: there is none."""
    lines = output.splitlines()
    begins = [index for index, line in enumerate(lines) if _BEGINNING.match(line)]
    if not begins:
        return ""
    return "\n".join(lines[begins[-1] :][:_MOST_LINES]).strip()


def complaint(text: str) -> str:
    """What is wrong with the arguments, in the script's words; empty where no line says it."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        found = _COMPLAINT.search(line)
        if found is not None:
            return found["words"].strip()
        if _BOX_TITLE.match(line) and index + 1 < len(lines):
            return lines[index + 1].strip(_BOX_EDGES)
    return ""
