"""Pictures of terminals: the commands that a person types, and the beginning of the output of each, as SVG."""

from __future__ import annotations

import re
from collections.abc import Iterable
from io import StringIO

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

_DARK = [(40, 44, 52), (224, 108, 117), (152, 195, 121), (229, 192, 123)]
_LIGHT = [(97, 175, 239), (198, 120, 221), (86, 182, 194), (171, 178, 191)]
THEME = TerminalTheme(
    (17, 20, 24),
    (214, 218, 224),
    [*_DARK, *_LIGHT],
    [(92, 99, 112), *_DARK[1:], *_LIGHT[:3], (230, 230, 230)],
)
MOST_LINES = 20
"""Lines of the output of a command: the sentence that answers stands at its beginning."""


def terminal_picture(commands: Iterable[tuple[str, str]], title: str, width: int) -> str:
    """The command lines with their output, of which colours are the codes of a terminal."""
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True, highlight=False)
    for command, output in commands:
        console.print(Text.assemble(("$ ", "dim"), (command, "bold")))
        lines = output.replace("\r\n", "\n").strip("\n").split("\n")
        for line in lines[:MOST_LINES]:
            console.print(Text.from_ansi(line), no_wrap=True, crop=True)
        if len(lines) > MOST_LINES:
            console.print(Text("…", "dim"))
        console.print()
    return without_web_fonts(console.export_svg(title=title, theme=THEME))


def without_web_fonts(svg: str) -> str:
    """The same picture in whatever fixed-width font there is: a page of ours fetches nothing from elsewhere."""
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
