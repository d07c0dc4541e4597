"""The panels: side by side where there is room, one at a time with tabs where there is not."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widget import Widget
from textual.widgets import Tab, Tabs

from skyline_tui.widgets.curve import Curve
from skyline_tui.widgets.lines import Lines
from skyline_tui.widgets.source import Source
from skyline_tui.widgets.whatifs import WhatIfs

TITLES = {
    "whatifs": "What-ifs [u]w[/]",
    "lines": "Lines [u]l[/]",
    "curve": "Batch sizes [u]g[/]",
    "source": "Source [u]p[/]",
}

# The classes by which the style sheet tells sizes of the terminal apart.
WIDTHS: list[tuple[int, str]] = [(0, "-narrow"), (110, "-wide"), (150, "-roomy")]
HEIGHTS: list[tuple[int, str]] | None = [(0, "-short"), (32, "-tall")]


class Panels(Vertical):
    """Knows which panel is in front; the style sheet decides which of the others are seen beside it."""

    _name = "whatifs"

    def compose(self) -> ComposeResult:
        """Tabs, and what they choose from."""
        yield Tabs(*(Tab(title, id=f"tab-{name}") for name, title in TITLES.items()), id="panel-tabs")
        with Container(id="panel-grid", classes="show-whatifs"):
            yield WhatIfs()
            yield Lines()
            yield Curve()
            yield Source()

    def select(self, name: str) -> None:
        """Bring a panel to the front and put the cursor there."""
        self._front(name)
        self.query_one(Tabs).active = f"tab-{name}"
        self.query_one(f"#{name}", Widget).focus()

    def focus_front(self) -> None:
        """Give the keys to the panel in front."""
        self.query_one(f"#{self._name}", Widget).focus()

    def on_tabs_tab_activated(self, message: Tabs.TabActivated) -> None:
        """A tab was clicked."""
        message.stop()
        self._front((message.tab.id or "tab-whatifs").removeprefix("tab-"))

    def _front(self, name: str) -> None:
        self._name = name
        grid = self.query_one("#panel-grid")
        for other in TITLES:
            grid.set_class(other == name, f"show-{other}")
