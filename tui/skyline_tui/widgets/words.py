"""Text that changes many times a second. The layout is computed again only when the height changes."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class Words(Static):
    """Ignores a text that is already shown."""

    _said: Content | None = None
    _lines = 0

    def say(self, content: Content, *, steady: bool = False) -> None:
        """Show another text, wrapped to the width; ``steady``: never fewer lines than before."""
        if steady and (width := self.content_size.width):
            content = content + "\n" * (self._lines - content.get_height({}, width))
        if self._said is not None and self._said.is_same(content):
            return
        self._said = content
        width = self.content_size.width
        lines = content.get_height({}, width) if width else 0
        self.update(content, layout=not width or lines != self._lines)
        self._lines = lines
