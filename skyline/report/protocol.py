"""The messages of the language server and its clients beyond the standard protocol.

Field names are camelCase because they are the wire format. ``skyline_lsp.typescript`` lists each message with the types
of its content and of its answer.
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
    """A script has a new profile, or the one it has went stale, or profiling it failed (``error``).

    ``usage`` is what the script printed about its arguments, where it did not accept them.
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
    """The script that is asked about (``skyline/profile``, ``skyline/whatifs``, ``skyline/revert`` and others)."""

    uri: str


@dataclass(frozen=True, slots=True)
class QuestionParams:
    """A batch size (null: as it is) and what-ifs as ``NAME`` or ``NAME=VALUE``.

    ``curve`` asks ``skyline/simulate`` for the batch-size curve under these what-ifs too: its answer then takes as long
    as one for each point.
    """

    uri: str
    batchSize: int | None = None
    whatifs: tuple[str, ...] = ()
    curve: bool = False


@dataclass(frozen=True, slots=True)
class RemoveParams:
    """A what-if to take out of the code, by its name (``skyline/remove``, answered with an ``ApplyResult``)."""

    uri: str
    whatif: str


@dataclass(frozen=True, slots=True)
class CodeChange:
    """One change that Skyline wrote into the code and that is still there; ``measured``: the profile has it too."""

    label: str
    batchSize: int | None
    whatifs: tuple[str, ...]
    removes: tuple[str, ...]
    measured: bool


@dataclass(frozen=True, slots=True)
class Verifiable:
    """The question that a verification would measure, over a profile, as ``VerifyParams`` take it."""

    profileId: str
    batchSize: int | None
    whatifs: tuple[str, ...]
    removes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CodeChanges:
    """The difference between the code and the profiled code.

    Answers ``skyline/codeChanges``, and comes as ``skyline/codeChanged`` when it becomes another answer. ``batchSize``
    is the number in the code now, null where it is the profiled one. ``whatifs`` were put into the code since the
    profile, ``removed`` (names) were taken out. ``changes``, oldest first, can be taken back, also after a new profile.
    ``verify`` is what a verification of them would measure, null where there is nothing.
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

    ``maxMemoryBytes`` null: what the device has. ``semantics`` is the gravest change of training allowed.
    """

    uri: str
    maxMemoryBytes: float | None = None
    semantics: Literal["exact", "numerics", "convergence", "model"] = "convergence"
    rewritable: bool = True
    """Only what the server can change in the code itself."""


@dataclass(frozen=True, slots=True)
class VerifyParams:
    """A question as in ``QuestionParams``, and how long to measure: ``rounds`` (6 at least), ``minutes`` at most.

    ``profileId`` names the saved profile that the question is about; null: the latest. The change is measured over the
    code as it was profiled, whatever the code is by now. ``removes`` are names of what-ifs in the profiled code that
    are taken out of it: that is measured without a prediction.
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
    """GPUs to predict a script on (none: the usual ones and the person's own), of which none need be here.

    Answered with a ``DevicesReport``. ``provider`` bounds the prices, ``gridGPerKwh`` is the carbon dioxide of the
    person's electricity.
    """

    uri: str
    gpus: tuple[str, ...] = ()
    provider: str = ""
    gridGPerKwh: float | None = None


@dataclass(frozen=True, slots=True)
class TimelineParams:
    """A question as in ``QuestionParams``, and what to show of its timeline (``skyline/timeline``).

    Answered with a ``TimelineReport``. ``step`` is an iteration from 0 (null: one that the server takes for typical),
    ``beginMs`` and ``endMs`` a window of it, ``most`` about how many pieces of work to tell apart on a lane.
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

    Answered with a ``ComparisonReport``. ``skyline/history`` has the ids.
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
    """A row of a plan by its number, and what to show of its timeline, as in ``TimelineParams``.

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

    Answered with a ``WatchReport``, null if the script was never watched. Ask again for news of a run that goes on.
    """

    uri: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class TuneParams:
    """A search for the fastest combination by measured trials (``skyline/tune``, answered with a ``TuneReport``).

    ``budgetSeconds`` is the time for all trials, ``allow`` the gravest change of training, ``maxMemoryBytes`` null what
    the device has. ``resume`` goes on from the trials of the last search. ``skyline/tuning`` tells of each trial.
    """

    uri: str
    budgetSeconds: float = 300.0
    allow: Literal["exact", "numerics", "convergence", "model"] = "exact"
    maxMemoryBytes: float | None = None
    resume: bool = False


@dataclass(frozen=True, slots=True)
class EntryScripts:
    """The scripts that profile a file (``skyline/entryScripts``). ``itself``: the file runs.

    Else it is a module, and ``scripts`` are the uris of the scripts that train with it, the most likely first; none
    where no such script was found.
    """

    itself: bool
    scripts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenResult:
    """The kind of a file opened by ``skyline/open``: a saved profile, or a PyTorch profiler trace.

    ``skyline/profile`` and the questions are answered for its uri from then on. ``script`` is what was profiled, empty
    where that is not known.
    """

    kind: Literal["profile", "trace"]
    script: str


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
    """``applied`` is true if the client took the edit; else ``reason`` says why not.

    ``refused`` are the parts of the question that were not written, each with code to write by hand, if any.
    """

    applied: bool
    reason: str | None = None
    refused: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The outcome of a command.

    ``status``: ``started``, ``running`` (the same run is under way), ``restarted`` (newer text), ``cancelled``,
    ``idle`` (nothing to cancel, or no script chosen), ``shown``, ``written`` with ``path``, or ``cleared``. ``script``
    is the uri of the script that a run is of, which may be another one than the file that was asked about.
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
    """The person trusts the workspace by now, or does not any more (``skyline/trust``, to the server).

    The value at the start is ``trusted`` in the options of initialization; without it they do.
    """

    trusted: bool


@dataclass(frozen=True, slots=True)
class ConfigParams:
    """Whose settings are asked for: those of a script or folder; null: those that hold for all of them."""

    uri: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigResult:
    """The settings in force with the origin of each (``skyline/config``), and what could not be used."""

    settings: tuple[SettingInForce, ...]
    problems: tuple[str, ...]
    trusted: bool
