"""Live tensor memory over an iteration as a curve, with a cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.binding import Binding
from textual.message import Message
from textual_plot import AxisFormatter, HiResMode, NumericAxisFormatter, PlotWidget

from skyline import units
from skyline.memory.timeline import MemoryPoint

_STEPS = 100


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


class MemoryPlot(PlotWidget, inherit_bindings=False):
    """Keys and the pointer move the cursor to a moment; the curve does not change."""

    ALLOW_SELECT = False
    """Text selection is off, since it would redraw the whole screen at every step of a drag."""

    PAINTS_CHILDREN = True
    """The library fills the plot and its margins when it draws the widget behind them."""

    BINDINGS = (
        Binding("left", "step(-1)", "Earlier", show=False, id="memory.left"),
        Binding("right", "step(1)", "Later", show=False, id="memory.right"),
        Binding("shift+left", "step(-10)", "Earlier by ten", show=False, id="memory.far-left"),
        Binding("shift+right", "step(10)", "Later by ten", show=False, id="memory.far-right"),
        Binding("home", "end(0)", "Begin", show=False, id="memory.begin"),
        Binding("end", "end(1)", "End", show=False, id="memory.end"),
        Binding("x", "peak", "Peak", show=False, id="memory.peak"),
    )

    @dataclass
    class MomentMoved(Message):
        """The cursor is at this moment."""

        time_ms: float

    def __init__(self) -> None:
        super().__init__(id="memory-plot", allow_pan_and_zoom=False)
        self.points: tuple[MemoryPoint, ...] = ()
        self.time_ms = 0.0
        self._grip = False
        self.set_x_formatter(_Labels(_Times))
        self.set_y_formatter(_Labels(_Bytes))

    def on_mount(self) -> None:
        """Reserve space for times below and sizes at the side; no title."""
        self.margin_left, self.margin_bottom, self.margin_top = 10, 2, 0

    @property
    def whole_ms(self) -> float:
        """The end of the iteration."""
        return self.points[-1].time_ms if self.points else 0.0

    def show(self, points: tuple[MemoryPoint, ...]) -> None:
        """Show another iteration; the cursor goes to its peak."""
        self.points = points
        self.time_ms = max(points, key=lambda point: point.live_bytes).time_ms if points else 0.0
        self._draw()

    def go(self, time_ms: float) -> None:
        """Move the cursor to a moment."""
        self.time_ms = min(max(time_ms, 0.0), self.whole_ms)
        self._draw()
        self.post_message(self.MomentMoved(self.time_ms))

    def action_step(self, steps: int) -> None:
        """Move by hundredths of the iteration."""
        self.go(self.time_ms + steps * self.whole_ms / _STEPS)

    def action_end(self, which: int) -> None:
        """Move to the beginning or the end."""
        self.go(which * self.whole_ms)

    def action_peak(self) -> None:
        """Move to the peak."""
        if self.points:
            self.go(max(self.points, key=lambda point: point.live_bytes).time_ms)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Move the cursor and start a drag."""
        if event.button == 1 and self.points:
            self._grip = True
            self.capture_mouse()
            self._follow(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Move the cursor with the pointer."""
        if self._grip:
            self._follow(event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """End the drag."""
        if self._grip:
            self._grip = False
            self.release_mouse()

    def _follow(self, event: events.MouseEvent) -> None:
        left = self.query_one("#plot").region.x
        time_ms, _ = self.get_coordinate_from_pixel(event.screen_x - left, 1)
        self.go(float(time_ms))

    def _draw(self) -> None:
        self.clear()
        self._v_lines.clear()
        if not self.points:
            return
        variables = self.app.theme_variables
        x, live, kept = [0.0], [self.points[0].live_bytes], [_kept(self.points[0])]
        for point in self.points:
            # A level holds until the next point.
            x += [point.time_ms, point.time_ms]
            live += [live[-1], point.live_bytes]
            kept += [kept[-1], _kept(point)]
        self.plot(x, kept, line_style=variables["secondary"], hires_mode=HiResMode.BRAILLE)
        self.plot(x, live, line_style=f"bold {variables['primary']}", hires_mode=HiResMode.QUADRANT)
        self.add_v_line(self.time_ms, line_style=variables["accent"])
        self.set_xlimits(0.0, max(self.whole_ms, 1e-6))
        self.set_ylimits(0.0, max(live) * 1.05 or 1.0)


def _kept(point: MemoryPoint) -> int:
    """Memory that stays alive between iterations."""
    return point.parameters + point.gradients + point.optimizer
