"""The messages from the communication with the server to the screen; nothing else is passed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from textual.message import Message

from skyline.report.commit_history import HistoryReport
from skyline.report.device_rows import DevicesReport
from skyline.report.history import ComparisonReport, SavedProfile
from skyline.report.live_memory import LiveMemoryReport
from skyline.report.plan_report import PlanChoices, PlanReport
from skyline.report.protocol import (
    ApplyResult,
    CommandResult,
    CompareParams,
    Measuring,
    PlanParams,
    PlanTimelineParams,
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
from skyline.report.timeline_report import TimelineReport
from skyline.report.tune import TuneProgress, TuneReport
from skyline.watch.watch_report import WatchReport
from skyline_tui.workspace_edit import RewrittenFile

Post = Callable[[Message], object]


class Severity(str, Enum):
    """The severity of a message; the values are Textual's."""

    INFORMATION = "information"
    WARNING = "warning"
    ERROR = "error"


@dataclass
class ProfileMoved(Message):
    """Notification: a script has a new profile, a stale profile, or an error instead of one."""

    change: ProfileChanged


@dataclass
class FirstFigures(Message):
    """Results of a measurement before its profile is complete."""

    measuring: Measuring


@dataclass
class ProfileArrived(Message):
    """A new profile with the answer to every what-if (None if the server has none)."""

    profile: ProfileReport
    whatifs: WhatIfReport | None


@dataclass
class EstimateArrived(Message):
    """The answer to a question, which may be outdated."""

    question: QuestionParams
    estimate: EstimateReport


@dataclass
class CurveArrived(Message):
    """The batch-size curve under the what-ifs of a question, which may be outdated."""

    whatifs: tuple[str, ...]
    points: tuple[CurvePointReport, ...]


@dataclass
class ValueArrived(Message):
    """The effect of one what-if at another value than the displayed one."""

    estimate: EstimateReport


@dataclass
class QuestionFailed(Message):
    """A question that the server refused, with the reason."""

    question: QuestionParams
    reason: str


@dataclass
class Progressed(Message):
    """Progress of an operation; ``fraction`` is None if unknown."""

    title: str
    text: str
    fraction: float | None


@dataclass
class ProgressEnded(Message):
    """The operation has ended; ``text`` may contain its result."""

    text: str


@dataclass
class FilesWritten(Message):
    """The server's edit was written to these files."""

    files: tuple[RewrittenFile, ...]


@dataclass
class ServerSaid(Message):
    """A message of the server for the user."""

    text: str
    severity: Severity


@dataclass
class ServerLost(Message):
    """The server process ended unexpectedly; ``log`` is the end of its output."""

    exit_code: int | None
    log: str


@dataclass
class BestFound(Message):
    """The fastest combination within the limits, or the reason why there is none."""

    best: BestReport


@dataclass
class DevicesCompared(Message):
    """Predictions for the script on other GPUs."""

    report: DevicesReport


@dataclass
class Verified(Message):
    """A measured prediction, valid or not."""

    report: VerifyReport


@dataclass
class NotVerified(Message):
    """A failed verification, with the reason."""

    reason: str


@dataclass
class Previewed(Message):
    """The edits that apply would make."""

    preview: PreviewResult


@dataclass
class Applied(Message):
    """The result of applying a change, with its prediction."""

    question: QuestionParams
    result: ApplyResult
    expected: EstimateReport | None
    seen: int
    """Number of profiles received before the request."""


@dataclass
class Reverted(Message):
    """The result of undoing the last change."""

    result: ApplyResult


@dataclass
class TakenOut(Message):
    """The result of removing a what-if from the code."""

    whatif: str
    result: ApplyResult


@dataclass
class TimelineArrived(Message):
    """A window of both timelines, for the request with these parameters."""

    asked: TimelineParams
    report: TimelineReport


@dataclass
class MemoryArrived(Message):
    """The live memory at a moment."""

    report: LiveMemoryReport


@dataclass
class HistoryArrived(Message):
    """The saved profiles, newest first."""

    saved: tuple[SavedProfile, ...]


@dataclass
class CommitsArrived(Message):
    """The states of the script over its commits; None without a profile."""

    report: HistoryReport | None


@dataclass
class Compared(Message):
    """A comparison of two profiles, in numbers and in code."""

    asked: CompareParams
    report: ComparisonReport


@dataclass
class PlanOffered(Message):
    """The clusters and models to plan for."""

    choices: PlanChoices


@dataclass
class PlanArrived(Message):
    """Ranked strategies, for the request with these parameters."""

    asked: PlanParams
    report: PlanReport


@dataclass
class PlanOpened(Message):
    """A window of the timeline of a row of a plan."""

    asked: PlanTimelineParams
    report: TimelineReport


@dataclass
class PlanWritten(Message):
    """The timeline of a row of a plan was written to a file."""

    result: CommandResult


@dataclass
class PictureFailed(Message):
    """A view without data, with the reason."""

    view: str
    reason: str


@dataclass
class Logged(Message):
    """A line of the server's own log."""

    text: str


@dataclass
class TuningMoved(Message):
    """Notification: the state of a search for the fastest combination."""

    news: TuneProgress


@dataclass
class TrialsArrived(Message):
    """The trials of the last search; None if there was none."""

    news: TuneProgress | None


@dataclass
class Tuned(Message):
    """The result of a search."""

    report: TuneReport


@dataclass
class WatchArrived(Message):
    """A watched run; None if the script was never watched."""

    report: WatchReport | None
