"""Keys and signs."""

from __future__ import annotations

from textual.content import Content

from skyline_tui.keys import HELP
from skyline_tui.screens.sheet import Sheet


class Help(Sheet):
    """All keys and mouse actions."""

    def __init__(self) -> None:
        super().__init__("Keys and signs", Content.from_markup(HELP))
