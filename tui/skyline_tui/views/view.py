"""The common base of the pages."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message

from skyline.foreign_text import clean_console
from skyline.report.document import Document
from skyline.report.schema import ProfileReport
from skyline.report.terminal import print_document

Place = tuple[str, int]
"""A file, and a line counted from 1."""


class View(Vertical):
    """A page. ``shown`` is called whenever it comes to the front, ``show`` for every new profile.

    Its widgets are made when it first comes to the front. Until then it stores what arrives.
    """

    made = False
    """True once the page has its widgets."""
    _wanted = False

    @dataclass
    class PlaceChosen(Message):
        """The user asks to see a line in its file."""

        file: str
        line: int

    def parts(self) -> ComposeResult:
        """The widgets of the page."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        if self._wanted:
            yield from self.parts()

    async def make(self) -> None:
        """Make the widgets, unless there are some, and show in them what has arrived so far."""
        # A key and a click may request the page at the same time.
        async with self.lock:
            if not self.made:
                self._wanted = True
                await self.recompose()
                self.made = True
                self.catch_up()

    def catch_up(self) -> None:
        """Show in the new widgets what arrived before them."""

    def show(self, profile: ProfileReport) -> None:
        """Show a new profile."""

    def shown(self) -> None:
        """Handle that the page is now in front."""

    def on_resize(self) -> None:
        if self.made:
            self.resized()

    def resized(self) -> None:
        """Fit the widgets to another size of the page."""

    def leave(self) -> bool:
        """Close an open part of the page. False if none is open, so that the key leaves the page."""
        return False

    def fail(self, reason: str) -> None:
        """Show the reason why the server has no data for the page."""

    @property
    def place(self) -> Place | None:
        """File and line at the user's position."""
        return None


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
