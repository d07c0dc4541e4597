"""The messages from the server communication to the screen, which are its only link to the screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from textual.message import Message

from skyline.report.protocol import (
    ApplyResult,
    Measuring,
    ProfileChanged,
    QuestionParams,
)
from skyline.report.schema import (
    CurvePointReport,
    EstimateReport,
    ProfileReport,
    VerifyReport,
    WhatIfReport,
)
from skyline.report.tune import TuneProgress
from skyline_tui.workspace_edit import RewrittenFile

Post = Callable[[Message], object]


class Severity(str, Enum):
    """The severity of a message; the values are Textual's."""

    INFORMATION = "information"
    WARNING = "warning"
    ERROR = "error"


class News(Message):
    """A message to the application. Messages that arrive while the application closes are dropped."""


@dataclass
class Answered(News):
    """An answer of the server, with the method of the screen that shows it."""

    shown: Callable[[Any], object]
    answer: Any


@dataclass
class ProfileMoved(News):
    """Notification: a script has a new profile, a stale profile, or an error instead of one."""

    change: ProfileChanged


@dataclass
class FirstFigures(News):
    """Results of a measurement before its profile is complete."""

    measuring: Measuring


@dataclass
class ProfileArrived(News):
    """A new profile with the answer to every what-if (None if the server has none)."""

    profile: ProfileReport
    whatifs: WhatIfReport | None


@dataclass
class EstimateArrived(News):
    """The answer to a question, which may be outdated."""

    question: QuestionParams
    estimate: EstimateReport


@dataclass
class CurveArrived(News):
    """The batch-size curve under the what-ifs of a question, which may be outdated."""

    whatifs: tuple[str, ...]
    points: tuple[CurvePointReport, ...]


@dataclass
class QuestionFailed(News):
    """A question that the server refused, with the reason."""

    question: QuestionParams
    reason: str


@dataclass
class Progressed(News):
    """Progress of an operation; ``fraction`` is None if unknown."""

    title: str
    text: str
    fraction: float | None


@dataclass
class ProgressEnded(News):
    """The operation has ended; ``text`` may contain its result."""

    text: str


@dataclass
class FilesWritten(News):
    """The server's edit was written to these files."""

    files: tuple[RewrittenFile, ...]


@dataclass
class ServerSaid(News):
    """A message of the server for the user."""

    text: str
    severity: Severity


@dataclass
class ServerLost(News):
    """The server process ended unexpectedly; ``log`` is the end of its output."""

    exit_code: int | None
    log: str


@dataclass
class Verified(News):
    """A measured prediction, valid or not."""

    report: VerifyReport


@dataclass
class NotVerified(News):
    """A failed verification, with the reason."""

    reason: str


@dataclass
class Applied(News):
    """The result of applying a change, with its prediction."""

    question: QuestionParams
    result: ApplyResult
    expected: EstimateReport | None
    seen: int
    """Number of profiles received before the request."""


@dataclass
class Reverted(News):
    """The result of undoing the last change."""

    result: ApplyResult


@dataclass
class TakenOut(News):
    """The result of removing a what-if from the code."""

    whatif: str
    result: ApplyResult


@dataclass
class PictureFailed(News):
    """A view without data, with the reason."""

    view: str
    reason: str


@dataclass
class Logged(News):
    """A line of the server's own log."""

    text: str


@dataclass
class TuningMoved(News):
    """Notification: the state of a search for the fastest combination."""

    news: TuneProgress
