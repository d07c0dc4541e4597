"""The messages of the language server and its clients beyond the standard protocol.

Field names are camelCase, as on the wire. ``skyline_lsp.typescript`` lists each message with the types of its
content and of its answer.
"""

from __future__ import annotations

from typing import Literal

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.settings.source import SettingInForce

PROFILE_CHANGED = "skyline/profileChanged"
MEASURING = "skyline/measuring"
PROFILE = "skyline/profile"
WHATIFS = "skyline/whatifs"
SIMULATE = "skyline/simulate"
BEST = "skyline/best"
PREVIEW = "skyline/preview"
APPLY = "skyline/apply"
REMOVE = "skyline/remove"
REVERT = "skyline/revert"
CODE_CHANGES = "skyline/codeChanges"
CODE_CHANGED = "skyline/codeChanged"
ORIGINAL = "skyline/original"
VERIFY = "skyline/verify"
DEVICES = "skyline/devices"
OPEN = "skyline/open"
ENTRY_SCRIPTS = "skyline/entryScripts"
TIMELINE = "skyline/timeline"
MEMORY_AT = "skyline/memoryAt"
HISTORY = "skyline/history"
COMMITS = "skyline/commits"
COMPARE = "skyline/compare"
PLAN = "skyline/plan"
PLAN_CHOICES = "skyline/planChoices"
PLAN_TIMELINE = "skyline/planTimeline"
PLAN_EXPORT = "skyline/planExport"
WATCHED = "skyline/watched"
TUNE = "skyline/tune"
TUNED = "skyline/tuned"
TUNING = "skyline/tuning"

TRUST = "skyline/trust"
CONFIG = "skyline/config"

COMMAND_PROFILE = "skyline.profile"
COMMAND_CANCEL = "skyline.cancel"
COMMAND_SHOW_REPORT = "skyline.showReport"
COMMAND_EXPORT = "skyline.export"
COMMAND_WHATIF = "skyline.whatIf"
COMMAND_APPLY_REWRITE = "skyline.applyRewrite"
COMMAND_REVERT = "skyline.revert"
COMMAND_VERIFY = "skyline.verify"
COMMAND_CLEAR = "skyline.clear"
COMMAND_USE_LATER = "skyline.useLater"


@dataclass(frozen=True, slots=True)
class ProfileChanged:
    """A script has a new profile, its profile became stale, or profiling failed (``error``).

    ``usage`` is the script's message about its arguments, if it did not accept them.
    """

    uri: str
    profileId: str | None
    headline: str
    stale: bool
    error: str | None = None
    errorLine: int | None = None
    usage: str | None = None


@dataclass(frozen=True, slots=True)
class Measuring:
    """The first figures of a current run, before its profile exists; ``text`` states them in words.

    Sent when a run starts, with the facts that the source shows (``iterationMs`` null), and once or twice
    more when the first iterations are timed. ``scriptSeconds`` is how long the script itself had run by then.
    """

    uri: str
    text: str
    batchSize: int | None
    iterationMs: Interval | None
    throughput: Interval | None
    scriptSeconds: float | None


@dataclass(frozen=True, slots=True)
class UriParams:
    """The script of a request (``skyline/profile``, ``skyline/whatifs``, ``skyline/revert`` and others)."""

    uri: str


@dataclass(frozen=True, slots=True)
class QuestionParams:
    """A batch size (null: unchanged) and what-ifs as ``NAME`` or ``NAME=VALUE``.

    With ``curve``, ``skyline/simulate`` also returns the batch-size curve under these what-ifs: the answer
    then takes as long as one answer per point.
    """

    uri: str
    batchSize: int | None = None
    whatifs: tuple[str, ...] = ()
    curve: bool = False


@dataclass(frozen=True, slots=True)
class RemoveParams:
    """A what-if to remove from the code, by its name (``skyline/remove``, answered with an ``ApplyResult``)."""

    uri: str
    whatif: str


@dataclass(frozen=True, slots=True)
class CodeChange:
    """A change that Skyline wrote into the code and that is still there; ``measured``: the profile has it too."""

    label: str
    batchSize: int | None
    whatifs: tuple[str, ...]
    removes: tuple[str, ...]
    measured: bool


@dataclass(frozen=True, slots=True)
class Verifiable:
    """The question that a verification would measure, over a profile, in the form of ``VerifyParams``."""

    profileId: str
    batchSize: int | None
    whatifs: tuple[str, ...]
    removes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CodeChanges:
    """The difference between the code and the profiled code.

    Answers ``skyline/codeChanges``, and is sent as ``skyline/codeChanged`` when it changes. ``batchSize`` is
    the number in the code now, null if it is the profiled one. ``whatifs`` were put into the code since the
    profile, ``removed`` (names) were taken out. ``changes``, oldest first, can be undone, also after a new
    profile. ``verify`` is the question for a verification of them, null if there is none.
    """

    uri: str
    batchSize: int | None
    whatifs: tuple[str, ...]
    removed: tuple[str, ...]
    changes: tuple[CodeChange, ...]
    verify: Verifiable | None


@dataclass(frozen=True, slots=True)
class OriginalText:
    """A file without the changes that Skyline wrote into it (``skyline/original`` answers with all such files)."""

    uri: str
    text: str


@dataclass(frozen=True, slots=True)
class BestParams:
    """The limits of the best combination (``skyline/best``, answered with a ``BestReport``).

    ``maxMemoryBytes`` null: the memory of the device. ``semantics`` is the gravest change of training
    allowed.
    """

    uri: str
    maxMemoryBytes: float | None = None
    semantics: Literal["exact", "numerics", "convergence", "model"] = "convergence"
    rewritable: bool = True
    """True for only the changes that the server can make in the code itself."""


@dataclass(frozen=True, slots=True)
class VerifyParams:
    """A question as in ``QuestionParams``, and how long to measure: ``rounds`` (6 at least), ``minutes`` at most.

    ``profileId`` names the saved profile of the question; null: the latest. The change is measured over the
    profiled code, even if the code has changed since. ``removes`` are names of what-ifs to take out of the
    profiled code; a removal is measured without a prediction.
    """

    uri: str
    batchSize: int | None = None
    whatifs: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    rounds: int | None = None
    minutes: float | None = None
    profileId: str | None = None


@dataclass(frozen=True, slots=True)
class DevicesParams:
    """GPUs to predict a script on (none: the usual ones and the person's own); they may be anywhere.

    Answered with a ``DevicesReport``. ``provider`` selects the prices, ``gridGPerKwh`` is the carbon dioxide
    of the person's electricity.
    """

    uri: str
    gpus: tuple[str, ...] = ()
    provider: str = ""
    gridGPerKwh: float | None = None


@dataclass(frozen=True, slots=True)
class TimelineParams:
    """A question as in ``QuestionParams``, and the part of its timeline to show (``skyline/timeline``).

    Answered with a ``TimelineReport``. ``step`` is an iteration from 0 (null: a typical one), ``beginMs`` and
    ``endMs`` are a window in it, ``most`` is about how many pieces of work to show on a lane.
    """

    uri: str
    batchSize: int | None = None
    whatifs: tuple[str, ...] = ()
    step: int | None = None
    beginMs: float | None = None
    endMs: float | None = None
    most: int = 400


@dataclass(frozen=True, slots=True)
class MemoryAtParams:
    """A moment of the iteration, in ms (``skyline/memoryAt``, answered with a ``LiveMemoryReport``)."""

    uri: str
    timeMs: float


@dataclass(frozen=True, slots=True)
class CompareParams:
    """Two saved profiles of a script by their ids; ``after`` null: the latest (``skyline/compare``).

    Answered with a ``ComparisonReport``. ``skyline/history`` returns the ids.
    """

    uri: str
    before: str
    after: str | None = None


@dataclass(frozen=True, slots=True)
class PlanParams:
    """The training of a script, or of a described transformer, on a cluster (``skyline/plan``).

    ``cluster`` is a name of ``skyline/planChoices`` or a TOML file, ``model`` a name or a JSON file (empty: the script,
    traced by shape for the cluster's GPU). ``gpus`` is ``64`` or ``8..512``, ``amount`` the tokens or samples of the
    training (``10B``), ``budget`` US dollars (``$5000``), ``deadline`` a time (``3d``); empty texts set nothing.
    """

    uri: str
    cluster: str
    model: str = ""
    gpus: str = ""
    amount: str = ""
    budget: str = ""
    deadline: str = ""
    globalBatch: int | None = None
    precision: Literal["amp_bf16", "bf16", "float8", "amp_fp16", "fp32"] = "amp_bf16"
    compiled: bool = False
    rows: int = 20


@dataclass(frozen=True, slots=True)
class PlanTimelineParams:
    """A row of a plan by its number, and the part of its timeline to show, as in ``TimelineParams``.

    ``skyline/planTimeline`` answers with a ``TimelineReport`` whose measured side has no lanes.
    """

    plan: PlanParams
    row: int
    beginMs: float | None = None
    endMs: float | None = None
    most: int = 400


@dataclass(frozen=True, slots=True)
class PlanExportParams:
    """A row of a plan by its number, and the file for its timeline, which ui.perfetto.dev opens.

    ``skyline/planExport`` answers with a ``CommandResult`` whose status is ``written``.
    """

    plan: PlanParams
    row: int
    path: str


@dataclass(frozen=True, slots=True)
class WatchedParams:
    """A run of ``skyline watch`` by the name of its file; null: the latest (``skyline/watched``).

    Answered with a ``WatchReport``, null if the script was never watched. Repeat the request to follow a
    current run.
    """

    uri: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class TuneParams:
    """A search for the fastest combination by measured trials (``skyline/tune``: a ``TuneReport``).

    ``budgetSeconds`` is the time for all trials, ``allow`` the gravest change of training, ``maxMemoryBytes``
    null the memory of the device. ``resume`` continues the last search with its trials. ``skyline/tuning``
    reports each trial.
    """

    uri: str
    budgetSeconds: float = 300.0
    allow: Literal["exact", "numerics", "convergence", "model"] = "exact"
    maxMemoryBytes: float | None = None
    resume: bool = False


@dataclass(frozen=True, slots=True)
class EntryScripts:
    """The scripts that profile a file (``skyline/entryScripts``). ``itself``: the file runs.

    Else the file is a module, and ``scripts`` are the uris of the scripts that train with it, the most likely
    first; none if no such script was found.
    """

    itself: bool
    scripts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenResult:
    """The kind of a file opened by ``skyline/open``: a saved profile, or a PyTorch profiler trace.

    From then on, ``skyline/profile`` and the questions work for its uri. ``script`` is the profiled script,
    empty if unknown.
    """

    kind: Literal["profile", "trace"]
    script: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A part of the question that is not rewritten, and the reason; ``snippet`` is code to write by hand, if any."""

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
    """The edits that ``skyline/apply`` would make, also as a unified diff."""

    edits: tuple[PreviewEdit, ...]
    diff: str
    refused: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """``applied`` is true if the client accepted the edit; else ``reason`` says why not.

    ``refused`` are the parts of the question that were not written, each with code to write by hand, if any.
    """

    applied: bool
    reason: str | None = None
    refused: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The outcome of a command.

    ``status``: ``started``, ``running`` (the same run is in progress), ``restarted`` (newer text),
    ``cancelled``, ``idle`` (nothing to cancel, or no script chosen), ``shown``, ``written`` with ``path``, or
    ``cleared``. ``script`` is the uri of the script that runs, which may differ from the file in the request.
    """

    status: Literal["started", "running", "restarted", "cancelled", "idle", "shown", "written", "cleared"]
    path: str | None = None
    script: str | None = None


@dataclass(frozen=True, slots=True)
class QuestionOptions:
    """The second argument of ``skyline.whatIf`` and ``skyline.applyRewrite``: a question about the script."""

    batchSize: int | None = None
    whatifs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """The second argument of ``skyline.verify``: a question, and how long to measure, as in ``VerifyParams``."""

    batchSize: int | None = None
    whatifs: tuple[str, ...] = ()
    rounds: int | None = None
    minutes: float | None = None


@dataclass(frozen=True, slots=True)
class TrustParams:
    """The person now trusts the workspace, or no longer does (``skyline/trust``, to the server).

    The value at the start is ``trusted`` in the initialization options; without it the workspace is trusted.
    """

    trusted: bool


@dataclass(frozen=True, slots=True)
class ConfigParams:
    """The script or folder whose settings are asked for; null: the settings that hold for all."""

    uri: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigResult:
    """The settings in force with the origin of each (``skyline/config``), and the settings that could not be used."""

    settings: tuple[SettingInForce, ...]
    problems: tuple[str, ...]
    trusted: bool
