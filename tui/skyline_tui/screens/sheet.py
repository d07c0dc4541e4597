"""A page of text over the main screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from skyline.report.pages.verification import verification_page
from skyline.report.schema import VerifyReport
from skyline_tui.keys import HELP
from skyline_tui.views.view import rendered

_WIDEST, _FRAME = 90, 8
"""Widths in cells: the sheet as in the style sheet, and the sum of its frame, margin and scroll bar."""


class Sheet(ModalScreen[None]):
    """Scrolls if it is too long; closes on Esc, on q and on a click outside."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "Close", id="sheet.close"),
        Binding("j", "scroll(1)", "Down", show=False, id="sheet.down"),
        Binding("k", "scroll(-1)", "Up", show=False, id="sheet.up"),
    ]

    FRAME: ClassVar[str] = "sheet"
    """The classes of the frame, as in the style sheet."""

    def __init__(self, title: str, content: Content) -> None:
        super().__init__()
        self._title = title
        self._content = content

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes=self.FRAME) as frame:
            frame.border_title = Content(self._title)
            frame.border_subtitle = "Esc closes"
            yield Static(self._content)

    def on_mount(self) -> None:
        """The arrow keys scroll."""
        self.query_one(VerticalScroll).focus()

    def on_click(self, event: object) -> None:
        widget = getattr(event, "widget", None)
        if widget is self:
            self.dismiss()

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


class Help(Sheet):
    """All keys and mouse actions."""

    def __init__(self) -> None:
        super().__init__("Keys and signs", Content.from_markup(HELP))


class VerifiedSheet(Sheet):
    """The page of ``skyline verify`` for a screen of this width."""

    def __init__(self, report: VerifyReport, width: int) -> None:
        super().__init__(
            "Verified", rendered(verification_page(report), min(_WIDEST, int(0.96 * width)) - _FRAME)
        )
