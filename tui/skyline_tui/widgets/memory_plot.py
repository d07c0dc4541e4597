"""Live tensor memory over an iteration as a curve, with a cursor."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual_plot import AxisFormatter, HiResMode, NumericAxisFormatter, PlotWidget

from skyline import units
from skyline_tui.widgets.moment_cursor import MomentCursor, kept_bytes


class _Labels(AxisFormatter):
    """Round tick values with their unit."""

    def __init__(self, scale_of: type[_Bytes] | type[_Times]) -> None:
        self._numeric = NumericAxisFormatter()
        self._texts = scale_of()

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        """The library's tick values, in the displayed unit."""
        factor = self._texts.factor(max(abs(min_), abs(max_)))
        return [tick * factor for tick in self._numeric.get_ticks(min_ / factor, max_ / factor, max_ticks)]

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        """Labels with the unit."""
        return [self._texts.text(tick, ticks) for tick in ticks]


class _Bytes:
    def factor(self, largest: float) -> float:
        return float(1000 ** max(0, min(4, int((len(str(int(largest))) - 1) / 3))))

    def text(self, value: float, of: Sequence[float]) -> str:
        return units.byte_scale(of).text(value)


class _Times:
    def factor(self, largest: float) -> float:
        return 1e-3 if largest < 1 else 1.0 if largest < 1e3 else 1e3

    def text(self, value: float, of: Sequence[float]) -> str:
        return units.time_scale(of).text(value)


class MemoryPlot(PlotWidget, MomentCursor, inherit_bindings=False):
    """Keys and the pointer move the cursor to a moment; the curve does not change."""

    BINDINGS = MomentCursor.BINDINGS

    PAINTS_CHILDREN = True
    """The library fills the plot and its margins when it draws the widget behind them."""

    def __init__(self) -> None:
        super().__init__(id="memory-plot", allow_pan_and_zoom=False)
        self.set_x_formatter(_Labels(_Times))
        self.set_y_formatter(_Labels(_Bytes))

    def on_mount(self) -> None:
        """Reserve space for times below and sizes at the side; no title."""
        self.margin_left, self.margin_bottom, self.margin_top = 10, 2, 0

    def time_at(self, event: events.MouseEvent) -> float:
        """The moment under the pointer."""
        left = self.query_one("#plot").region.x
        time_ms, _ = self.get_coordinate_from_pixel(event.screen_x - left, 1)
        return float(time_ms)

    def draw(self) -> None:
        """Draw the curve and the cursor."""
        self.clear()
        self._v_lines.clear()
        if not self.points:
            return
        variables = self.app.theme_variables
        x, live, kept = [0.0], [self.points[0].live_bytes], [kept_bytes(self.points[0])]
        for point in self.points:
            # A level holds until the next point.
            x += [point.time_ms, point.time_ms]
            live += [live[-1], point.live_bytes]
            kept += [kept[-1], kept_bytes(point)]
        self.plot(x, kept, line_style=variables["secondary"], hires_mode=HiResMode.BRAILLE)
        self.plot(x, live, line_style=f"bold {variables['primary']}", hires_mode=HiResMode.QUADRANT)
        self.add_v_line(self.time_ms, line_style=variables["accent"])
        self.set_xlimits(0.0, max(self.whole_ms, 1e-6))
        self.set_ylimits(0.0, max(live) * 1.05 or 1.0)
