"""A table that can be sorted by any column, with a click on its title or with keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

from skyline_tui.figures import tail

Row = TypeVar("Row")


@dataclass(frozen=True)
class TableColumn(Generic[Row]):
    """A column: the text of a cell and its sort key (None sorts last).

    ``widest`` limits its width in cells (0: no limit); ``largest_first`` is the initial order.
    """

    title: str
    text: Callable[[Row], str]
    order: Callable[[Row], Any]
    left: bool = False
    largest_first: bool = True
    flexible: bool = False
    """Takes the remaining width."""


class SortTable(DataTable[Text], Generic[Row]):
    """Rows of one kind. The title of the sorted column has ▼ (largest first) or ▲."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort(1)", "Sort by the next column", show=False, id="table.sort"),
        Binding("S,shift+s", "sort(-1)", "Sort by the previous column", show=False, id="table.sort-back"),
        Binding("R,shift+r", "turn", "Reverse the order", show=False, id="table.turn"),
        Binding("j", "cursor_down", "Down", show=False, id="table.down"),
        Binding("k", "cursor_up", "Up", show=False, id="table.up"),
    ]

    def __init__(self, columns: Sequence[TableColumn[Row]], *, sorted_by: int, table_id: str) -> None:
        super().__init__(id=table_id, classes="panel", cursor_type="row", zebra_stripes=False)
        self._shape = tuple(columns)
        self._by = sorted_by
        self._largest_first = columns[sorted_by].largest_first
        self._things: list[Row] = []
        self.order: list[Row] = []

    @property
    def current(self) -> Row | None:
        """The row of the cursor."""
        return self.order[self.cursor_row] if 0 <= self.cursor_row < len(self.order) else None

    def fill(self, rows: Sequence[Row], shape: Sequence[TableColumn[Row]] | None = None) -> None:
        """Replace the rows, and the columns if given."""
        self._things = list(rows)
        if shape is not None:
            self._shape = tuple(shape)
            self._by = min(self._by, len(self._shape) - 1)
        self._redraw(keep=False)

    def go_to(self, wanted: Callable[[Row], bool]) -> bool:
        """Move the cursor to the first matching row; False if there is none."""
        for number, row in enumerate(self.order):
            if wanted(row):
                self.move_cursor(row=number)
                return True
        return False

    def action_sort(self, step: int) -> None:
        """Sort by another column."""
        self._sort((self._by + step) % len(self._shape))

    def action_turn(self) -> None:
        """Reverse the order."""
        self._sort(self._by)

    def on_data_table_header_selected(self, message: DataTable.HeaderSelected) -> None:
        message.stop()
        self._sort(message.column_index)

    def on_resize(self) -> None:
        self._redraw(keep=True)

    def _sort(self, column: int) -> None:
        self._largest_first = (
            not self._largest_first if column == self._by else self._shape[column].largest_first
        )
        self._by = column
        self._redraw(keep=True)

    def _redraw(self, *, keep: bool) -> None:
        at = self.current if keep else None
        by = self._shape[self._by]
        known = [row for row in self._things if by.order(row) is not None]
        known.sort(key=by.order, reverse=self._largest_first)
        self.order = known + [row for row in self._things if by.order(row) is None]
        self.clear(columns=True)
        cells = [[column.text(row) for row in self.order] for column in self._shape]
        mark = "▼" if self._largest_first else "▲"
        titles = [
            column.title + (mark if number == self._by else "") for number, column in enumerate(self._shape)
        ]
        widths = [max(map(len, (title, *texts))) for title, texts in zip(titles, cells, strict=True)]
        for number, column in enumerate(self._shape):
            if column.flexible:
                others = sum(width for place, width in enumerate(widths) if place != number)
                room = self.scrollable_content_region.width - others - 2 * len(widths) - 1
                widths[number] = min(widths[number], max(room, 12))
        for title, width, column in zip(titles, widths, self._shape, strict=True):
            self.add_column(Text(title, justify="left" if column.left else "right"), width=width)
        for number in range(len(self.order)):
            self.add_row(
                *(
                    Text(tail(texts[number], width), justify="left" if column.left else "right", no_wrap=True)
                    for texts, width, column in zip(cells, widths, self._shape, strict=True)
                )
            )
        if at is not None and at in self.order:
            self.move_cursor(row=self.order.index(at))
