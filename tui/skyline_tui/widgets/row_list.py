"""A list whose rows are laid out for the available width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option


class RowList(OptionList):
    """Rebuilds its rows when the width changes and keeps the selected row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "Down", show=False, id="list.down"),
        Binding("k", "cursor_up", "Up", show=False, id="list.up"),
    ]

    unreachable: ClassVar[frozenset[str]] = frozenset({"head", "empty"})
    """Rows that the cursor skips."""

    @property
    def row_width(self) -> int:
        """Width of a row in cells, without the scroll bar. ``rows`` must shorten longer content."""
        # Its cell is always reserved: otherwise all rows would be rewritten whenever a scroll bar appears.
        return max(self.size.width - 1, 20)

    def rows(self, width: int) -> Iterable[tuple[str, Content]]:
        """Id and content of every row."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Update the changed rows; rebuild all if the set of rows differs."""
        new = list(self.rows(self.row_width))
        if self._rewritten(new):
            return
        at = self.highlighted_option.id if self.highlighted_option else None
        self.set_options(
            Option(content, id=row_id, disabled=row_id in self.unreachable) for row_id, content in new
        )
        ids = [option.id for option in self.options]
        if ids:
            first = next((index for index, option in enumerate(self.options) if not option.disabled), 0)
            self.highlighted = ids.index(at) if at in ids else first

    def _rewritten(self, new: Sequence[tuple[str, Content]]) -> bool:
        """Update changes within the existing rows; False if the rows or their heights differ."""
        old = [(option.id, option.prompt) for option in self.options]
        if [row_id for row_id, _ in old] != [row_id for row_id, _ in new]:
            return False
        changed: list[tuple[int, Content]] = []
        for index, ((_, before), (_, content)) in enumerate(zip(old, new, strict=True)):
            if not isinstance(before, Content) or before.plain.count("\n") != content.plain.count("\n"):
                return False
            if not before.is_same(content):
                changed.append((index, content))
        for index, content in changed:
            self._rewrite(index, content)
        return bool(old)

    def _rewrite(self, index: int, content: Content) -> None:
        """Replace a row's content of equal height; the library's own method redraws all rows."""
        line = self._index_to_line.get(index)
        if line is None:
            # The list is hidden and was never laid out.
            self.replace_option_prompt_at_index(index, content)
            return
        option = self.options[index]
        option._set_prompt(content)
        for known in [key for key in self._option_render_cache.keys() if key[0] is option]:  # noqa: SIM118
            self._option_render_cache.discard(known)
        self.refresh_lines(line, content.plain.count("\n") + 1)

    async def _on_click(self, event: events.Click) -> None:
        """Select the clicked row; a second click acts like Enter, so that a stray click changes nothing."""
        event.prevent_default()
        row = event.style.meta.get("option")
        if row is not None and not self.options[row].disabled:
            self.highlighted = row
            self.clicked(event)

    def clicked(self, event: events.Click) -> None:
        """Handle a click on the selected row."""
        if event.chain > 1:
            self.action_select()

    def on_resize(self) -> None:
        self.redraw()
