"""The common base of the pages."""

from __future__ import annotations

from dataclasses import dataclass

from textual.containers import Vertical
from textual.message import Message

from skyline.report.schema import ProfileReport

Place = tuple[str, int]
"""A file, and a line counted from 1."""


class View(Vertical):
    """A page. ``shown`` is called whenever it comes to the front, ``show`` for every new profile."""

    @dataclass
    class PlaceChosen(Message):
        """The user asks to see a line in its file."""

        file: str
        line: int

    def show(self, profile: ProfileReport) -> None:
        """A new profile."""

    def shown(self) -> None:
        """Handle that the page is now in front."""

    def fail(self, reason: str) -> None:
        """Show the reason why the server has no data for the page."""

    @property
    def place(self) -> Place | None:
        """File and line at the user's position."""
        return None
