"""The messages from the communication with the server to the screen; nothing else is passed."""

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


@dataclass
class Answered(Message):
    """An answer of the server, and the method of the screen that shows it."""

    shown: Callable[[Any], object]
    answer: Any


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
class Verified(Message):
    """A measured prediction, valid or not."""

    report: VerifyReport


@dataclass
class NotVerified(Message):
    """A failed verification, with the reason."""

    reason: str


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
