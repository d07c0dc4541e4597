"""Everything below the headline: the inputs of a question, and its answer."""

from __future__ import annotations

from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from skyline.report.protocol import QuestionParams
from skyline.report.schema import (
    BestReport,
    CurvePointReport,
    EstimateReport,
    ProfileReport,
    WhatIfReport,
)
from skyline_tui.screens.explain import Explain
from skyline_tui.summary import kept_promise, together
from skyline_tui.widgets.controls import Controls
from skyline_tui.widgets.curve import Curve
from skyline_tui.widgets.lines import Lines
from skyline_tui.widgets.panels import Panels
from skyline_tui.widgets.source import Source
from skyline_tui.widgets.status import Status
from skyline_tui.widgets.whatifs import BATCH_SIZE, WhatIfs


class Workbench(Vertical):
    """Bars, panels and status. It knows the question on the screen, but not who answers it."""

    @dataclass
    class Changed(Message):
        """The question on the screen has changed."""

    @dataclass
    class Meant(Message):
        """The user released a bar, typed a number or toggled a what-if: the question is accepted."""

        question: QuestionParams

    def __init__(self, uri: str) -> None:
        super().__init__(id="workbench")
        self._uri = uri
        self._expected: EstimateReport | None = None

    def compose(self) -> ComposeResult:
        yield Controls()
        yield Panels()

    @property
    def question(self) -> QuestionParams:
        """The batch size of the bars and the checked what-ifs."""
        return QuestionParams(self._uri, self.query_one(Controls).wanted, self.query_one(WhatIfs).checked)

    @property
    def _status(self) -> Status:
        return self.screen.query_one(Status)

    @property
    def is_applied(self) -> bool:
        """True if the whole question is already in the code."""
        controls, checked = self.query_one(Controls), self.query_one(WhatIfs)
        return (controls.wanted is None or controls.is_applied) and set(checked.checked) <= checked.spent

    @property
    def asks_nothing(self) -> bool:
        """True if the question is the unchanged script."""
        return self.question.batchSize is None and not self.question.whatifs

    @property
    def place(self) -> tuple[str, int] | None:
        """File and line at the user's position: the line under the cursor, else the visible one."""
        lines = self.query_one(Lines)
        line = lines.current if lines.has_focus else None
        return (line.file, line.line) if line is not None else self.query_one(Source).place

    def show(self, profile: ProfileReport, whatifs: WhatIfReport | None) -> None:
        """Show a new profile in all panels. A question that was not applied is asked again."""
        for widget in (Lines, Curve, Source, Controls):
            self.query_one(widget).show(profile)
        self.query_one(WhatIfs).show(whatifs)
        self._question_changed()
        # A measurement may give several profiles, the first without a curve: keep the prediction for all of them.
        if self._expected is not None and self._expected.batch_size != profile.batch_size.value:
            self._expected = None
        if self._expected is not None and self.asks_nothing:
            self._status.sum_up(kept_promise(self._expected, profile))

    def show_estimate(self, question: QuestionParams, estimate: EstimateReport) -> None:
        """Show an answer. During a drag it may be for a batch size just passed; for other what-ifs it is ignored."""
        if question.whatifs == self.question.whatifs and not self.asks_nothing:
            self.query_one(Controls).show_estimate(question, estimate)
            self._status.sum_up(together(estimate, question, self._status.room))

    def show_curve(self, whatifs: tuple[str, ...], points: tuple[CurvePointReport, ...]) -> None:
        """Show the batch-size curve under what-ifs; ignored if others are checked by now."""
        if whatifs == self.question.whatifs:
            self.query_one(Curve).show_under(whatifs, points)
            self.query_one(Controls).show_curve(whatifs, points)

    def show_value(self, estimate: EstimateReport) -> None:
        """Show a what-if at another value."""
        self.query_one(WhatIfs).show_value(estimate)

    def applied(self, question: QuestionParams, expected: EstimateReport | None) -> None:
        """Handle that the question is written into the code: the next profile answers it."""
        self._expected = expected
        if question.batchSize is not None:
            self.query_one(Controls).spent()
        self.query_one(WhatIfs).spend(question.whatifs)

    def measured(self, question: QuestionParams) -> None:
        """Discard the written part of the question, which is now the state of the script."""
        self.query_one(WhatIfs).uncheck(question.whatifs)

    def check(self, whatif: str) -> bool:
        """Check this what-if too; False if it is not available."""
        name, _, value = whatif.partition("=")
        if name == BATCH_SIZE and value.isdecimal():
            self.query_one(Controls).choose(int(value))
            return True
        return self.query_one(WhatIfs).check(whatif)

    def propose(self, best: BestReport) -> None:
        """Make a combination the question on the screen, without writing it into the code."""
        sizes = [part.batch_size for part in best.parts if part.name == BATCH_SIZE]
        self.query_one(Controls).propose(sizes[0] if sizes else None)
        self.query_one(WhatIfs).propose(part for part in best.parts if part.name != BATCH_SIZE)
        self._question_changed()

    def drop(self) -> None:
        """Discard the question."""
        self._expected = None
        self.query_one(Controls).drop()
        self.query_one(WhatIfs).uncheck()
        self._question_changed()

    def progress(self, title: str, text: str, fraction: float | None) -> None:
        """Show the progress of a measurement."""
        self._status.progress(title, text, fraction)
        self.query_one(Controls).measuring = True

    def progress_ended(self) -> None:
        """Handle the end of a measurement."""
        self._status.done()
        self.query_one(Controls).measuring = False

    def on_controls_batch_size_moved(self, message: Controls.BatchSizeMoved) -> None:
        message.stop()
        self._question_changed()

    def on_controls_settled(self, message: Controls.Settled) -> None:
        message.stop()
        if self.query_one(Controls).wanted is not None:
            self.post_message(self.Meant(self.question))

    def on_what_ifs_toggled(self, message: WhatIfs.Toggled) -> None:
        message.stop()
        self._question_changed()
        self.post_message(self.Meant(self.question))

    def on_what_ifs_asked(self, message: WhatIfs.Asked) -> None:
        self.app.push_screen(Explain(message.estimate, message.baseline, message.record))

    def on_curve_size_chosen(self, message: Curve.SizeChosen) -> None:
        self.query_one(Controls).choose(message.batch_size)

    def on_lines_source_opened(self, message: Lines.SourceOpened) -> None:
        self.query_one(Source).open(message.line)
        self.query_one(Panels).select("source")

    def _question_changed(self) -> None:
        if not self.question.whatifs:
            self.query_one(Curve).show_as_is()
        if self.asks_nothing:
            self.query_one(Controls).clear_estimate()
            self._status.sum_up(together(None, self.question))
        elif not self.query_one(Controls).is_applied:
            self._expected = None
        self.post_message(self.Changed())
