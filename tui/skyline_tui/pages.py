"""Pages of the reports as text of the screen."""

from __future__ import annotations

from io import StringIO

from rich.text import Text
from textual.content import Content

from skyline.foreign_text import clean_console
from skyline.report.document import Document
from skyline.report.terminal import print_document

_WIDEST = 126


def rendered(page: Document, width: int) -> Content:
    """The page as ``skyline`` prints it on a terminal of this width."""
    written = StringIO()
    console = clean_console(
        file=written,
        width=min(max(width, 40), _WIDEST),
        highlight=False,
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
    )
    print_document(page, console)
    return Content.from_rich_text(Text.from_ansi(written.getvalue().strip("\n")))
