"""What the pages have in common."""

from __future__ import annotations

from dataclasses import dataclass

from textual.containers import Vertical
from textual.message import Message

from skyline.report.schema import ProfileReport

Place = tuple[str, int]
"""A file and a line from 1."""


class View(Vertical):
    """A page. ``shown`` is called whenever it comes to the front, ``show`` for every new profile."""

    @dataclass
    class PlaceChosen(Message):
        """The person wants to see a line in its file."""

        file: str
        line: int

    def show(self, profile: ProfileReport) -> None:
        """A new profile."""

    def shown(self) -> None:
        """The page is in front now."""

    def fail(self, reason: str) -> None:
        """What the page wanted of the server there is not."""

    @property
    def place(self) -> Place | None:
        """File and line that the person is at."""
        return None
