"""The two bars and the batch size between them: move one, the other follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.timer import Timer
from textual.widgets import Label

from skyline import units
from skyline.report.basis import Direction
from skyline.report.protocol import QuestionParams
from skyline.report.schema import CurvePointReport, EstimateReport, ProfileReport
from skyline_tui.figures import MUTED, fitting, memory_change, throughput_change
from skyline_tui.scale import Axis, CurveScale, scale_of
from skyline_tui.widgets.batch_line import BatchLine, Expected
from skyline_tui.widgets.drag_bar import DragBar
from skyline_tui.widgets.words import Words

SETTLE_S = 0.7
"""Keys have no release event: a pause of this length replaces it."""


class Controls(Vertical):
    """Converts drags, keys and typed numbers into a batch size, and shows the predicted values."""

    @dataclass
    class BatchSizeMoved(Message):
        """The user moved to this batch size and may continue."""

        batch_size: int

    @dataclass
    class Settled(Message):
        """The user released the bar: this is the wanted batch size."""

        batch_size: int

    measuring: reactive[bool] = reactive(False)
    """True during a measurement: the curve arrives last."""

    def __init__(self) -> None:
        super().__init__(id="controls")
        self.asked: int | None = None
        self._spent = False
        self._profile: ProfileReport | None = None
        self._estimate: EstimateReport | None = None
        self._answered: int | None = None
        """The batch size of the estimate; None for the size in the file."""
        self._plain: CurveScale | None = None
        """The curve of the unchanged script."""
        self._under: tuple[tuple[str, ...], CurveScale] | None = None
        """The curve under what-ifs, with their names."""
        self._scale: CurveScale | None = None
        """The current curve, used for the pointer."""
        self._scale_to_come: CurveScale | None = None
        """The curve that replaces it on release: the ends of a bar stay fixed while it is held."""
        self._settling: Timer | None = None

    def compose(self) -> ComposeResult:
        yield BarRow("Throughput")
        yield BarRow("Memory")
        yield BatchLine()

    @property
    def current(self) -> int | None:
        """The batch size in the file."""
        return self._profile.batch_size.value if self._profile else None

    @property
    def wanted(self) -> int | None:
        """The batch size of the bars; None if it is the one in the file."""
        return self.asked if self.asked != self.current else None

    @property
    def is_applied(self) -> bool:
        """True if the batch size of the bars is already in the code, but not yet measured."""
        return self._spent

    @property
    def held(self) -> bool:
        """True while the pointer holds a bar."""
        return any(bar.held for bar in self.query(DragBar))

    @property
    def unsettled(self) -> bool:
        """True if keys moved the bars and the value is not yet accepted."""
        return self._settling is not None

    @property
    def read_only(self) -> bool:
        """True if the bars can only predict: no place that can be rewritten holds the batch size."""
        if self._profile is None:
            return False
        return self._profile.batch_size.knob is None and self._profile.batch_size.lives is None

    @property
    def why_not(self) -> str:
        """The reason why the bars are disabled; empty if they are not."""
        profile = self._profile
        if profile is None:
            return ""
        if profile.batch_size.value is None:
            return (
                f"the bars cannot move: {profile.batch_size.reason or 'it could not be found in the script'}"
            )
        if self._plain is None and self.measuring:
            return "measuring other sizes…"
        if self._plain is None:
            number = len(profile.curve)
            why = profile.batch_size.reason or "no other batch size could be run"
            return f"the bars cannot move: {number or 'no'} point{'s' * (number != 1)} on the curve ({why})"
        return ""

    def show(self, profile: ProfileReport) -> None:
        """Show a new profile. It answers applied changes; a pending question stays."""
        self._profile = profile
        # While the curve of changed code is measured, the pointer still uses the previous one. The numbers come from
        # the server, which marks them as extrapolated.
        self._plain = scale_of(profile.curve, profile.batch_size.value) or (
            self._plain if self.measuring else None
        )
        self._under = None
        if self.wanted is None or self._spent:
            self.drop()
        else:
            self._estimate = None
            self._adopt(self._plain)
            self._draw()

    def spent(self) -> None:
        """Handle that the question is written into the code: the next profile replaces it."""
        self._spent = True

    def show_estimate(self, question: QuestionParams, estimate: EstimateReport) -> None:
        """Show the server's answer to the question on the screen."""
        self._estimate, self._answered = estimate, question.batchSize
        if self._plain is not None:
            known = self._under is not None and self._under[0] == question.whatifs
            under = self._under[1] if known and self._under is not None else None
            self._adopt(under or _scale_under(self._plain, question, estimate, self.current))
        self._draw()

    def show_curve(self, whatifs: tuple[str, ...], points: tuple[CurvePointReport, ...]) -> None:
        """Show the curve under the what-ifs on the screen; the bars take its ends."""
        scale = scale_of(points, self.current)
        # Without points there is no other curve: keep the current one.
        if scale is not None:
            self._under = (whatifs, scale)
            self._adopt(scale)
            self._draw()

    def drop(self) -> None:
        """Discard the question: return to the unchanged script."""
        self._stop_settling()
        for bar in self.query(DragBar):
            if bar.held:
                bar.let_go()
        self.asked, self._spent = None, False
        self.clear_estimate()

    def clear_estimate(self) -> None:
        """Discard the answer, since there is no question."""
        self._estimate, self._under = None, None
        self._adopt(self._plain)
        self._draw()

    def step(self, change: int) -> None:
        """Move by whole samples, for keys."""
        if self.current is None or self.why_not:
            self._say_why_not()
            return
        self._move(max((self.asked or self.current) + change, 1))
        self._stop_settling()
        self._settling = self.set_timer(SETTLE_S, self.settle)

    def typed(self, batch_size: int | None) -> None:
        """Use the typed number; None after a cancellation."""
        if batch_size is not None:
            self.choose(batch_size)

    def choose(self, batch_size: int) -> None:
        """Go to a typed batch size, which may be outside the bars."""
        if self.current is None:
            self._say_why_not()
            return
        self._move(batch_size)
        self.settle()

    def propose(self, batch_size: int | None) -> None:
        """Show a suggested batch size, not yet accepted; None: the size in the file."""
        self._stop_settling()
        self.asked, self._spent = batch_size, False
        self._estimate = None
        self._adopt(self._plain)
        self._draw()

    def settle(self) -> None:
        """Accept the displayed value."""
        self._stop_settling()
        if self.asked is None:
            return
        if self.wanted is not None and self._profile is not None and self.read_only:
            reason = self._profile.batch_size.reason or "no literal in the code sets it"
            self.notify(
                f"The batch size cannot be rewritten: {reason}. The bars only predict.", title="Not written"
            )
        self.post_message(self.Settled(self.asked))

    def watch_measuring(self) -> None:
        """Update the reason in place of the bars, which depends on it."""
        self._draw()

    def on_drag_bar_dragged(self, message: DragBar.Dragged) -> None:
        message.stop()
        self._stop_settling()
        message.bar.then = message.fraction
        self._move(self._batch_size_at(message.bar, message.fraction))

    def on_drag_bar_released(self, message: DragBar.Released) -> None:
        message.stop()
        self._move(self._batch_size_at(message.bar, message.fraction))
        self._adopt(self._scale_to_come)
        self._draw()
        self.settle()

    def _batch_size_at(self, bar: DragBar, fraction: float) -> int:
        scale = self._scale
        if scale is None:
            return self.current or 1
        if bar.id == "throughput-bar":
            return scale.usual_for_throughput(scale.throughput.value(fraction))
        return scale.usual_for_memory(scale.memory.value(fraction))

    def _adopt(self, scale: CurveScale | None) -> None:
        """Use this curve from now on; while a bar is held, after its release."""
        self._scale_to_come = scale
        if not self.held:
            self._scale = scale

    def _move(self, batch_size: int) -> None:
        if batch_size == self.asked:
            self._draw()
            return
        self.asked, self._spent = batch_size, False
        self._draw()
        self.post_message(self.BatchSizeMoved(batch_size))

    def _stop_settling(self) -> None:
        if self._settling is not None:
            self._settling.stop()
            self._settling = None

    def _say_why_not(self) -> None:
        self.notify(self.why_not or "There is no profile yet.", severity="warning")

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        profile, scale, then = self._profile, self._scale, self._expected
        if profile is None or not self.is_mounted:
            return
        rate, memory = self.query_one("#throughput-row", BarRow), self.query_one("#memory-row", BarRow)
        rate.block(self.why_not)
        memory.block(self.why_not)
        if scale is not None:
            rate_then = then.throughput.value if then and then.throughput else None
            rate.show(scale.throughput, profile.throughput.value if profile.throughput else None, rate_then)
            rate.judge(then.direction if then else "")
            memory.show(
                scale.memory, profile.memory.peak_bytes.value, then.peak_bytes.value if then else None
            )
            for row, axis in ((rate, scale.throughput), (memory, scale.memory)):
                if axis.constant:
                    row.block("the same at every batch size that was measured")
        rate.figures(self._rate_figures(profile, then, rate.room))
        memory.figures(self._memory_figures(profile, then, memory.room))
        self.query_one(BatchLine).show(profile, scale, self.asked, then, held=self.held)

    @property
    def _expected(self) -> Expected | None:
        """The curve answers immediately; the server's estimate, which includes more, replaces it."""
        if self._estimate is not None and self._answered == self.wanted:
            return Expected.answered(self._estimate)
        scale, asked = self._scale, self.wanted
        if scale is None or asked is None or not scale.smallest <= asked <= scale.largest:
            return None
        return Expected.read_off(scale.at(asked))

    def _rate_figures(self, profile: ProfileReport, then: Expected | None, width: int) -> Content:
        asked = then.throughput if then else None
        change = throughput_change(profile.throughput, asked, width)
        return self._with_ends(change, width, "throughput") if asked is None else Content(change)

    def _memory_figures(self, profile: ProfileReport, then: Expected | None, width: int) -> Content:
        if not profile.memory.peak_bytes.value:
            # A recording without allocations.
            return Content("unknown")
        change = memory_change(profile.memory.peak_bytes, then.peak_bytes if then else None, width)
        return self._with_ends(change, width, "memory")

    def _with_ends(self, change: str, width: int, of: Literal["throughput", "memory"]) -> Content:
        """The change, and the values at the bar's ends if there is space."""
        if self._scale is None:
            return Content(change)
        axis: Axis = getattr(self._scale, of)
        # Formatted in the unit of their difference, or both ends might look equal.
        span = [axis.top - axis.bottom]
        scale = units.rate_scale(span) if of == "throughput" else units.byte_scale(span)
        low, high = scale.number(axis.bottom), scale.number(axis.top)
        unit = "/s" if of == "throughput" else f" {scale.unit}"
        ends = fitting(width - len(change), f"  bar {low}–{high}{unit}", f" {low}–{high}{unit}", "")
        return Content.assemble(change, (ends, f"not bold {MUTED}"))


def _scale_under(
    plain: CurveScale, question: QuestionParams, estimate: EstimateReport, current: int | None
) -> CurveScale:
    """The curve scaled by the effect of the what-ifs, so that it agrees with the server's answer."""
    if not question.whatifs:
        return plain
    at = plain.at(question.batchSize or current or plain.smallest)
    return plain.under(estimate.iteration_ms.value / at.iteration_ms, estimate.peak.value / at.memory_bytes)


class BarRow(Horizontal):
    """Shows values on a bar by its axis, except while the pointer holds it."""

    def __init__(self, name: str) -> None:
        super().__init__(id=f"{name.lower()}-row", classes="bar-row")
        self._label = name
        self.bar = DragBar(f"{name.lower()}-bar")
        self._figures = Words(id=f"{name.lower()}-figures", classes="bar-figures")

    def compose(self) -> ComposeResult:
        yield Label(self._label, classes="bar-name")
        yield self.bar
        yield self._figures

    @property
    def room(self) -> int:
        """Width of the values, in cells."""
        return self._figures.content_size.width

    def figures(self, content: Content) -> None:
        """Show the values as numbers."""
        self._figures.say(content)

    def block(self, why_not: str) -> None:
        """Disable dragging with a reason; enable it with an empty one."""
        self.bar.why_not = why_not

    def judge(self, direction: Direction) -> None:
        """Colour the change as a gain or loss only if its whole range is one."""
        self.bar.set_class(direction == "better", "-better")
        self.bar.set_class(direction == "worse", "-worse")

    def show(self, axis: Axis, now: float | None, then: float | None) -> None:
        """Show the current and the predicted value, in the unit of the axis."""
        self.bar.now = 0.0 if now is None else axis.fraction(now)
        if not self.bar.held:
            self.bar.then = None if then is None else axis.fraction(then)
