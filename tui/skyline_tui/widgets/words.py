"""Text that changes many times a second: the screen is laid out anew only where its height changes."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class Words(Static):
    """Draws nothing for the text it has already."""

    _said: Content | None = None
    _lines = 0

    def say(self, content: Content, *, steady: bool = False) -> None:
        """Another text, over as many lines as it takes at the width there is; ``steady``: never fewer than before."""
        if steady and (width := self.content_size.width):
            content = content + "\n" * (self._lines - content.get_height({}, width))
        if self._said is not None and self._said.is_same(content):
            return
        self._said = content
        width = self.content_size.width
        lines = content.get_height({}, width) if width else 0
        self.update(content, layout=not width or lines != self._lines)
        self._lines = lines
