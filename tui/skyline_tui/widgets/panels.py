"""The panels: side by side if there is space, otherwise one at a time with tabs."""

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

# The classes by which the style sheet distinguishes sizes of the terminal.
WIDTHS: list[tuple[int, str]] = [(0, "-narrow"), (110, "-wide"), (150, "-roomy")]
HEIGHTS: list[tuple[int, str]] | None = [(0, "-short"), (32, "-tall")]


class Panels(Vertical):
    """Stores the panel in front; the style sheet decides which others are visible."""

    _name = "whatifs"

    def compose(self) -> ComposeResult:
        yield Tabs(*(Tab(title, id=f"tab-{name}") for name, title in TITLES.items()), id="panel-tabs")
        with Container(id="panel-grid", classes="show-whatifs"):
            yield WhatIfs()
            yield Lines()
            yield Curve()
            yield Source()

    def select(self, name: str) -> None:
        """Bring a panel to the front and focus it."""
        self._front(name)
        self.query_one(Tabs).active = f"tab-{name}"
        self.query_one(f"#{name}", Widget).focus()

    def focus_front(self) -> None:
        """Focus the panel in front."""
        self.query_one(f"#{self._name}", Widget).focus()

    def on_tabs_tab_activated(self, message: Tabs.TabActivated) -> None:
        message.stop()
        self._front((message.tab.id or "tab-whatifs").removeprefix("tab-"))

    def _front(self, name: str) -> None:
        self._name = name
        grid = self.query_one("#panel-grid")
        for other in TITLES:
            grid.set_class(other == name, f"show-{other}")
