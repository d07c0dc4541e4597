"""The first page: phases, bars, what-ifs, and their joint effect."""

from __future__ import annotations

from textual.app import ComposeResult

from skyline_tui.views.view import Place, View
from skyline_tui.widgets.panels import Panels
from skyline_tui.widgets.phase_bar import PhaseBar
from skyline_tui.widgets.verdict import Verdict
from skyline_tui.widgets.workbench import Workbench


class Overview(View):
    """All inputs of a question."""

    def __init__(self, uri: str) -> None:
        super().__init__(id="overview", classes="view")
        self._uri = uri

    def compose(self) -> ComposeResult:
        """The verdict and the phases above, the workbench below."""
        yield Verdict()
        yield PhaseBar()
        yield Workbench(self._uri)

    def shown(self) -> None:
        """Focus the panel in front."""
        self.query_one(Panels).focus_front()

    @property
    def place(self) -> Place | None:
        """The line under the cursor, else the visible one."""
        return self.query_one(Workbench).place
