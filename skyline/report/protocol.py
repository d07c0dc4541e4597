"""What the language server and its clients say to each other beyond the standard protocol.

Field names are camelCase because they are the wire format. A server answers ``skyline/profile`` with a
``ProfileReport``, ``skyline/simulate`` with an ``EstimateReport`` and ``skyline/verify`` with a ``VerifyReport``
(all in ``skyline.report.schema``), and ``skyline/devices`` with a ``DevicesReport`` (``skyline.report.devices``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skyline.interval import Interval

PROFILE_CHANGED = "skyline/profileChanged"
MEASURING = "skyline/measuring"
PROFILE = "skyline/profile"
WHATIFS = "skyline/whatifs"
SIMULATE = "skyline/simulate"
BEST = "skyline/best"
PREVIEW = "skyline/preview"
APPLY = "skyline/apply"
REVERT = "skyline/revert"
VERIFY = "skyline/verify"
DEVICES = "skyline/devices"

COMMAND_PROFILE = "skyline.profile"
COMMAND_CANCEL = "skyline.cancel"
COMMAND_SHOW_REPORT = "skyline.showReport"
COMMAND_EXPORT = "skyline.export"


@dataclass(frozen=True, slots=True)
class ProfileChanged:
    """A script has a new profile, or the one it has went stale, or profiling it failed (``error``)."""

    uri: str
    profileId: str | None
    headline: str
    stale: bool
    error: str | None = None
    errorLine: int | None = None


@dataclass(frozen=True, slots=True)
class Measuring:
    """What a run under way has shown so far, for a look before its profile is there; ``text`` says it in words.

    Comes when a run starts, with what the source tells (``iterationMs`` null), and once or twice more when its
    first iterations are timed. ``scriptSeconds`` is how long the script itself ran until then.
    """

    uri: str
    text: str
    batchSize: int | None
    iterationMs: Interval | None
    throughput: Interval | None
    scriptSeconds: float | None


@dataclass(frozen=True, slots=True)
class UriParams:
    """The script that is asked about (``skyline/profile``, ``skyline/whatifs``, ``skyline/revert``)."""

    uri: str


@dataclass(frozen=True, slots=True)
class QuestionParams:
    """A batch size (null: as it is) and what-ifs as ``NAME`` or ``NAME=VALUE``."""

    uri: str
    batchSize: int | None = None
    whatifs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BestParams:
    """What the best combination must keep to (``skyline/best``, answered with a ``BestReport``).

    ``maxMemoryBytes`` null: what the device has. ``semantics`` is the gravest change of training allowed.
    """

    uri: str
    maxMemoryBytes: float | None = None
    semantics: Literal["exact", "numerics", "convergence"] = "convergence"
    rewritable: bool = True
    """Only what the server can change in the code itself."""


@dataclass(frozen=True, slots=True)
class VerifyParams:
    """A question as in ``QuestionParams``, and how long to measure: ``rounds`` (6 at least), ``minutes`` at most."""

    uri: str
    batchSize: int | None = None
    whatifs: tuple[str, ...] = ()
    rounds: int | None = None
    minutes: float | None = None


@dataclass(frozen=True, slots=True)
class DevicesParams:
    """GPUs to predict a script on (none: the usual ones and the person's own), of which none need be here.

    Answered with a ``DevicesReport``. ``provider`` bounds the prices, ``gridGPerKwh`` is the carbon dioxide of the
    person's electricity.
    """

    uri: str
    gpus: tuple[str, ...] = ()
    provider: str = ""
    gridGPerKwh: float | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A part of the question that is not rewritten, and why; ``snippet`` is code to write by hand, if any."""

    name: str
    reason: str
    snippet: str = ""


@dataclass(frozen=True, slots=True)
class PreviewEdit:
    """One replacement: line from 0, columns in UTF-16 code units, as in the standard protocol."""

    uri: str
    startLine: int
    startColumn: int
    endLine: int
    endColumn: int
    newText: str


@dataclass(frozen=True, slots=True)
class PreviewResult:
    """The edits that ``skyline/apply`` would make, as a unified diff too."""

    edits: tuple[PreviewEdit, ...]
    diff: str
    refused: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """Whether the client took the edit; ``reason`` says why not.

    ``refused`` are the parts of the question that were not written, each with code to write by hand, if any.
    """

    applied: bool
    reason: str | None = None
    refused: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command did.

    ``status``: ``started``, ``running`` (the same run is under way), ``restarted`` (newer text), ``cancelled``,
    ``idle`` (nothing to cancel), ``shown``, or ``written`` with ``path``.
    """

    status: Literal["started", "running", "restarted", "cancelled", "idle", "shown", "written"]
    path: str | None = None
