"""The titles of the pages, each with its key; a click selects a page."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from skyline_tui.figures import MUTED

VIEWS = {
    "overview": "Overview",
    "view-lines": "Lines",
    "view-timeline": "Timeline",
    "view-memory": "Memory",
    "view-devices": "Devices",
    "view-diff": "Diff",
    "view-findings": "Findings",
    "view-log": "Log",
    "view-plan": "Plan",
    "view-watch": "Watch",
    "view-tune": "Tune",
}
"""Ids and titles in the order of their keys."""
VIEW_KEYS_OF = dict(zip(VIEWS, "123456789WT", strict=True))
SHORT_TITLES = {
    **VIEWS,
    "overview": "Over",
    "view-timeline": "Time",
    "view-memory": "Mem",
    "view-devices": "GPUs",
    "view-findings": "Find",
}
"""Short titles that fit into eighty columns."""


class ViewTabs(Widget):
    """One line. The page in front is in brackets, so that it is visible without colour."""

    @dataclass
    class TabChosen(Message):
        """The user selected this page."""

        view: str

    def __init__(self) -> None:
        super().__init__(id="view-tabs")
        self._active = next(iter(VIEWS))
        self._marks: dict[str, str] = {}

    def activate(self, view: str) -> None:
        """Mark this page as the one in front."""
        self._active = view
        self.refresh()

    def mark(self, view: str, text: str) -> None:
        """Add a few characters to a title, such as a number; empty: none."""
        self._marks[view] = text
        self.refresh()

    def on_resize(self) -> None:
        self.refresh()

    def render(self) -> Content:
        return Content("").join(part for _, part in self._parts())

    def on_click(self, event: events.Click) -> None:
        at = 0
        for view, part in self._parts():
            at += part.cell_length
            if event.x < at:
                self.post_message(self.TabChosen(view))
                return

    def _parts(self) -> list[tuple[str, Content]]:
        words = {view: title + self._marks.get(view, "") for view, title in VIEWS.items()}
        roomy = sum(len(text) + 6 for text in words.values()) <= self.size.width
        for shorter in (VIEWS, SHORT_TITLES):
            if sum(len(text) + 3 for text in words.values()) >= self.size.width:
                words = dict(shorter)
        parts: list[tuple[str, Content]] = []
        gap, before = (" ", " ") if roomy else ("", "")
        for view, text in words.items():
            key = VIEW_KEYS_OF[view]
            if view == self._active:
                part = Content.styled(f"{gap}[{key} {text}]{gap}", "bold $text-primary on $primary 20%")
                before = gap
            else:
                after = "  " if roomy else ""
                part = Content.assemble(
                    gap + before, (key, "$footer-key-foreground"), (f" {text}", MUTED), after
                )
                before = " "
            parts.append((view, part))
        return parts
