"""A script on GPUs that need not be here."""

from __future__ import annotations

from io import StringIO
from typing import ClassVar

from rich.console import Console
from rich.text import Text
from textual.content import Content

from skyline.report.devices import DevicesReport
from skyline.report.text.devices import render_devices
from skyline_tui.screens.sheet import Sheet

_MOST, _SHARE, _AROUND = 126, 0.96, 8
"""The widest that the page gets, the share of the screen that it may take, and the cells of its frame and bar."""


class Devices(Sheet):
    """The page of ``skyline devices``, as wide as ``screen_width`` allows."""

    FRAME: ClassVar[str] = "sheet -wide"

    def __init__(self, report: DevicesReport, screen_width: int) -> None:
        width = min(_MOST, int(screen_width * _SHARE)) - _AROUND
        page = StringIO()
        console = Console(
            file=page,
            width=width,
            highlight=False,
            force_terminal=True,
            color_system="standard",
            legacy_windows=False,
        )
        render_devices(report, console)
        super().__init__("On other GPUs", Content.from_rich_text(Text.from_ansi(page.getvalue().strip("\n"))))
