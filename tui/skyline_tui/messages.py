"""What the conversation with the server posts to the screen. Nothing but these crosses over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from textual.message import Message

from skyline.report.devices import DevicesReport
from skyline.report.history import ComparisonReport, SavedProfile
from skyline.report.live_memory import LiveMemoryReport
from skyline.report.protocol import (
    ApplyResult,
    CompareParams,
    Measuring,
    PreviewResult,
    ProfileChanged,
    QuestionParams,
    TimelineParams,
)
from skyline.report.schema import (
    BestReport,
    CurvePointReport,
    EstimateReport,
    ProfileReport,
    VerifyReport,
    WhatIfReport,
)
from skyline.report.timelines import TimelineReport
from skyline_tui.workspace_edit import RewrittenFile

Post = Callable[[Message], object]


class Severity(str, Enum):
    """How loudly a message is shown; the values are Textual's."""

    INFORMATION = "information"
    WARNING = "warning"
    ERROR = "error"


@dataclass
class ProfileMoved(Message):
    """The server says that a script has a new profile, that it went stale, or why there is none."""

    change: ProfileChanged


@dataclass
class FirstFigures(Message):
    """What a measurement has shown so far, before its profile is there."""

    measuring: Measuring


@dataclass
class ProfileArrived(Message):
    """A profile was fetched, with every what-if asked singly (None where the server has none)."""

    profile: ProfileReport
    whatifs: WhatIfReport | None


@dataclass
class EstimateArrived(Message):
    """The answer to a question, which may no longer be the question on the screen."""

    question: QuestionParams
    estimate: EstimateReport


@dataclass
class CurveArrived(Message):
    """The batch-size curve under the what-ifs of a question, which may no longer be the question on the screen."""

    whatifs: tuple[str, ...]
    points: tuple[CurvePointReport, ...]


@dataclass
class ValueArrived(Message):
    """What one what-if would bring at another value than the one that was shown."""

    estimate: EstimateReport


@dataclass
class QuestionFailed(Message):
    """A question the server would not answer, and why."""

    question: QuestionParams
    reason: str


@dataclass
class Progressed(Message):
    """How far a piece of work is; ``fraction`` is None where nobody knows."""

    title: str
    text: str
    fraction: float | None


@dataclass
class ProgressEnded(Message):
    """The piece of work is over; ``text`` may say how it went."""

    text: str


@dataclass
class FilesWritten(Message):
    """The server's edit was written to these files."""

    files: tuple[RewrittenFile, ...]


@dataclass
class ServerSaid(Message):
    """Something the server wants read."""

    text: str
    severity: Severity


@dataclass
class ServerLost(Message):
    """The server process ended by itself; ``log`` is the tail of what it wrote."""

    exit_code: int | None
    log: str


@dataclass
class BestFound(Message):
    """The fastest combination that keeps to the limits given, or why there is none."""

    best: BestReport


@dataclass
class DevicesCompared(Message):
    """The script on GPUs that need not be here."""

    report: DevicesReport


@dataclass
class Verified(Message):
    """A prediction was measured; whether that counts is for the report to say."""

    report: VerifyReport


@dataclass
class NotVerified(Message):
    """There is no measurement, and why."""

    reason: str


@dataclass
class Previewed(Message):
    """The edits that would be made."""

    preview: PreviewResult


@dataclass
class Applied(Message):
    """Whether the change was written, with what the server then expected of it."""

    question: QuestionParams
    result: ApplyResult
    expected: EstimateReport | None
    seen: int
    """How many profiles had come when it was asked for."""


@dataclass
class Reverted(Message):
    """Whether the last change was taken back."""

    result: ApplyResult


@dataclass
class TakenOut(Message):
    """Whether a what-if that the code had was taken out of it."""

    whatif: str
    result: ApplyResult


@dataclass
class TimelineArrived(Message):
    """A window of both timelines, for the params that asked for it."""

    asked: TimelineParams
    report: TimelineReport


@dataclass
class MemoryArrived(Message):
    """What is live at a moment."""

    report: LiveMemoryReport


@dataclass
class HistoryArrived(Message):
    """The saved profiles, newest first."""

    saved: tuple[SavedProfile, ...]


@dataclass
class Compared(Message):
    """Two profiles, in numbers and in code."""

    asked: CompareParams
    report: ComparisonReport


@dataclass
class PictureFailed(Message):
    """A picture that there is none of, and why; ``view`` is where it was wanted."""

    view: str
    reason: str


@dataclass
class Logged(Message):
    """A line of the server's own log."""

    text: str
