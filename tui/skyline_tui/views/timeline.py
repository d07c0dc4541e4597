"""The page of one iteration over time, lane by lane."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from skyline.report.place import place
from skyline.report.protocol import QuestionParams, TimelineParams
from skyline.report.schema import ProfileReport
from skyline.report.timeline_report import TimelineReport
from skyline_tui.figures import MUTED, flow
from skyline_tui.views.view import Place, View
from skyline_tui.widgets.lane_cells import NOTHING
from skyline_tui.widgets.lanes import SIGNS, Lanes


class TimelineView(View):
    """The lanes, with a line of text about the selected work. Requests finer data after zooming in."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("full_stop", "iteration(1)", "Next iteration", show=False, id="timeline.next-iteration"),
        Binding("comma", "iteration(-1)", "Previous iteration", show=False, id="timeline.previous-iteration"),
    ]

    @dataclass
    class WindowWanted(Message):
        """Request for a window of the timeline."""

        params: TimelineParams

    def __init__(self, uri: str) -> None:
        super().__init__(id="view-timeline", classes="view page")
        self._asked = TimelineParams(uri)
        self._profile: ProfileReport | None = None
        self._fresh = False

    def parts(self) -> ComposeResult:
        yield Static(id="timeline-title", classes="view-title")
        yield Lanes()
        yield Static("waiting for the first profile", id="timeline-detail", classes="view-detail")

    def show(self, profile: ProfileReport) -> None:
        """Mark the data as outdated. They are requested when the page is shown."""
        self._profile, self._fresh = profile, False
        if self.display:
            self.shown()

    def shown(self) -> None:
        if not self._fresh and self._profile is not None:
            self._want(TimelineParams(self._asked.uri, self._asked.batchSize, self._asked.whatifs))
        self.query_one(Lanes).focus()

    def ask(self, question: QuestionParams) -> None:
        """Use another question for the simulated side."""
        if (question.batchSize, question.whatifs) == (self._asked.batchSize, self._asked.whatifs):
            return
        self._asked = TimelineParams(question.uri, question.batchSize, question.whatifs, self._asked.step)
        self._fresh = False
        if self.display:
            self._want(self._asked)

    def arrived(self, asked: TimelineParams, report: TimelineReport) -> None:
        """Show the data, or finer data of a window."""
        if (asked.batchSize, asked.whatifs) != (self._asked.batchSize, self._asked.whatifs):
            return
        self._fresh = True
        self._asked = TimelineParams(asked.uri, asked.batchSize, asked.whatifs, report.step)
        lanes = self.query_one(Lanes)
        anew = asked.beginMs is None
        if anew or (asked.beginMs, asked.endMs) == (lanes.window.begin_ms, lanes.window.end_ms):
            lanes.show(report, anew=anew)
        self._describe()

    def fail(self, reason: str) -> None:
        self.query_one("#timeline-detail", Static).update(Content.styled(f"! {reason}", "$text-warning"))

    def on_lanes_window_moved(self, message: Lanes.WindowMoved) -> None:
        message.stop()
        now, window = self._asked, message.window
        margin = 2 * window.cells
        asked = TimelineParams(
            now.uri, now.batchSize, now.whatifs, now.step, window.begin_ms, window.end_ms, margin
        )
        self.post_message(self.WindowWanted(asked))
        self._describe()

    def on_lanes_cursor_moved(self, message: Lanes.CursorMoved) -> None:
        message.stop()
        self._describe()

    def on_lanes_task_opened(self, message: Lanes.TaskOpened) -> None:
        message.stop()
        at = self.place
        if at is None:
            self.notify("No line of your code is known for this.")
        else:
            self.post_message(self.PlaceChosen(*at))

    def resized(self) -> None:
        self._describe()

    def action_iteration(self, step: int) -> None:
        report = self.query_one(Lanes).report
        if report is None or not 0 <= report.step + step < report.steps:
            self.notify("There is no other recorded iteration in this direction.")
            return
        now = self._asked
        self._want(TimelineParams(now.uri, now.batchSize, now.whatifs, report.step + step))

    @property
    def place(self) -> Place | None:
        lanes = self.query_one(Lanes)
        lane, piece, report = lanes.lane, lanes.piece, lanes.report
        if lane is None or report is None or piece == NOTHING or lane.place[piece] < 0:
            return None
        at = report.places[lane.place[piece]]
        return at.file, at.line

    def _want(self, params: TimelineParams) -> None:
        self.post_message(self.WindowWanted(params))

    def _describe(self) -> None:
        lanes = self.query_one(Lanes)
        report = lanes.report
        if report is None:
            return
        width = max(self.size.width - 2, 20)
        signs = [f"{sign} {phase}" for phase, sign in SIGNS.items() if sign.strip() and self._has(phase)]
        parts = [
            Content.styled(f"iteration {report.step + 1} of {report.steps}", "bold"),
            Content("  ".join(signs)),
            Content.styled("drag or ← →, wheel or + − zooms, Home all, Enter line", MUTED),
        ]
        title = flow(parts, width)
        if report.reason:
            title += Content.styled(f"\n! not simulated: {report.reason}", "$text-warning")
        self.query_one("#timeline-title", Static).update(title)
        self.query_one("#timeline-detail", Static).update(self._detail(lanes, width))

    def _has(self, phase: str) -> bool:
        profile = self._profile
        return profile is None or float(getattr(profile.phases, phase)) > 0

    def _detail(self, lanes: Lanes, width: int) -> Content:
        parts = lanes.work_words
        if (own := self.place) is not None:
            base = Path(self._profile.script).parent if self._profile is not None else None
            parts.append(Content.styled(place(*own, base), "$text-primary"))
        return flow(parts, width)
