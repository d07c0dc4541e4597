"""The plots, if the library for them is installed (extra ``tui``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyline_tui.widgets.memory_plot import MemoryPlot


def memory_plot() -> MemoryPlot | None:
    """The curve of live memory; None without the library."""
    try:
        from skyline_tui.widgets.memory_plot import MemoryPlot
    except ImportError:
        return None
    return MemoryPlot()
