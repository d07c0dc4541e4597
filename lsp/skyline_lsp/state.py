"""State of each script: its latest prepared profile, its staleness and its last error."""

from __future__ import annotations

import ast
import logging
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import estimate
from skyline.analysis.line_parts import Place
from skyline.errors import SkylineError
from skyline.lazy_dataclass import dataclass
from skyline.ledger.ledger import Conditions, Ledger, LedgerUnusable, range_factors
from skyline.report import build
from skyline.report.basis import headline
from skyline.report.build import with_ledger
from skyline.report.schema import LineReport, ProfileReport, WhatIfReport
from skyline.source.knob import SettingPlace
from skyline.source.line_map import same_code
from skyline.source.settings_file import as_recorded, is_settings_file, same_settings, still_holds
from skyline.source.text import SourceText
from skyline.trace.batch_place import held_settings
from skyline.trace.profile import Profile
from skyline.trace.trial import batch_trials
from skyline.watch.diary import with_reached_goal
from skyline.whatif.question import Choice, CurvePoint, Estimate, Question
from skyline_lsp.capture_job import CaptureJob
from skyline_lsp.changes import ApplicableChange, changes
from skyline_lsp.journal import Read
from skyline_lsp.line_detail import LineDetail, line_details
from skyline_lsp.options import ProfileOptions
from skyline_lsp.texts import Texts, same_text

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class FunctionCost:
    """A function or class with its cost per iteration. ``line`` is the line of its definition or first decorator.

    A function's cost excludes the functions nested in it. A class's cost includes all its methods. ``bound`` is the
    bottleneck of most of that time, empty if unknown.
    """

    name: str
    line: int
    self_ms: float
    share: float
    bound: str = ""


def function_costs(
    text: str, rows: Iterable[LineReport], bounds: Mapping[int, str] | None = None
) -> tuple[FunctionCost, ...]:
    """The functions and classes that contain the rows, in source order.

    A class with cost in one method only is left out, because its cost equals that method's. ``bounds`` has the
    bottleneck of each line.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    definitions = [node for node in ast.walk(tree) if isinstance(node, _Definition)]
    sums: dict[int, list[LineReport]] = {}
    parts: dict[int, set[int]] = {}
    for row in rows:
        around = [node for node in definitions if node.lineno <= row.line <= (node.end_lineno or node.lineno)]
        functions = [node for node in around if not isinstance(node, ast.ClassDef)]
        innermost = max(functions, key=lambda node: node.lineno, default=None)
        if innermost is not None:
            sums.setdefault(id(innermost), []).append(row)
        for node in around:
            if isinstance(node, ast.ClassDef):
                sums.setdefault(id(node), []).append(row)
                inside = [one for one in functions if one.lineno > node.lineno]
                method = min(inside, key=lambda one: one.lineno, default=None)
                parts.setdefault(id(node), set()).add(id(method))
    costs = [
        FunctionCost(
            name=node.name,
            line=min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]),
            self_ms=sum(row.self_ms for row in sums[id(node)]),
            share=sum(row.share for row in sums[id(node)]),
            bound=_bound(sums[id(node)], bounds or {}),
        )
        for node in definitions
        if id(node) in sums and (not isinstance(node, ast.ClassDef) or len(parts[id(node)]) > 1)
    ]
    return tuple(sorted(costs, key=lambda cost: cost.line))


def _bound(rows: list[LineReport], bounds: Mapping[int, str]) -> str:
    votes: Counter[str] = Counter()
    for row in rows:
        votes[bounds.get(row.line, "")] += row.self_ms  # type: ignore[assignment]
    bound, ms = votes.most_common(1)[0]
    return bound if ms > votes.total() / 2 else ""


logger = logging.getLogger(__name__)

_REMEMBERED_ESTIMATES = 512


@dataclass(frozen=True, slots=True)
class Prepared:
    """A profile with all results that editor requests need, computed in advance."""

    profile: Profile
    analysis: Analysis
    report: ProfileReport
    whatifs: WhatIfReport
    headline: str
    lines: dict[str, dict[int, LineReport]]
    """Rows by file and line, without the unattributed row."""
    details: dict[Place, LineDetail]
    """Further details of each line, by file and line."""
    functions: dict[str, tuple[FunctionCost, ...]]
    """Cost of each function and class, by file."""
    sources: dict[str, SourceText]
    """The files as profiled."""
    changes: tuple[ApplicableChange, ...]
    """The possible code changes and their places."""
    settings: tuple[SettingPlace, ...]
    """The places in settings files that hold settings of the run."""

    @property
    def verdict_words(self) -> str:
        """The cause that bounds the step and the change that helps most, in two sentences."""
        verdict = self.whatifs.verdict
        return f"{verdict.bound} {verdict.advice}" if verdict is not None else ""

    def as_profiled(self, path: str, now: Read) -> SourceText | None:
        """The text of a file as it was profiled. None if it is not known.

        In a settings file only the values of known settings were recorded: returns the current text with these values.
        """
        if path in self.sources:
            return self.sources[path]
        held = [place for place in self.settings if place.file == path]
        text = now(path) if held else None
        return as_recorded(held, text) if text is not None else None


def prepare(profile: Profile) -> Prepared:
    """Analyse and index a profile. Slow: call it on a worker thread."""
    analysis = with_own_ranges(analyse(with_reached_goal(profile)))
    report = build.profile_report(analysis)
    lines: dict[str, dict[int, LineReport]] = {}
    for row in report.lines:
        if row.line:
            lines.setdefault(row.file, {}).setdefault(row.line, row)
    sources = {source.path: SourceText.of(source.path, source.text) for source in profile.sources}
    details = line_details(analysis)
    functions = {
        path: function_costs(
            sources[path].text,
            rows.values(),
            {line: details[path, line].bound for line in rows if (path, line) in details},
        )
        for path, rows in lines.items()
        if path in sources
    }
    whatifs = build.whatif_report(analysis, None)
    return Prepared(
        profile=profile,
        analysis=analysis,
        report=report,
        whatifs=with_records(whatifs, analysis),
        headline=headline(report),
        lines=lines,
        details=details,
        functions=functions,
        sources=sources,
        changes=changes(analysis, whatifs, report.findings),
        settings=held_settings(profile),
    )


def with_own_ranges(analysis: Analysis) -> Analysis:
    """Stretch ranges by earlier verifications in the ledger. Returns the input if the ledger is unreadable."""
    try:
        entries = Ledger().entries()
    except LedgerUnusable as error:
        logger.warning("%s", error.message)
        return analysis
    return analysis.with_range_factors(range_factors(entries, Conditions.of(analysis.profile)))


def with_records(whatifs: WhatIfReport, analysis: Analysis) -> WhatIfReport:
    """Add the accuracy of earlier predictions from the ledger. Returns the input if the ledger is unreadable."""
    try:
        return with_ledger(whatifs, analysis, Ledger().entries())
    except LedgerUnusable as error:
        logger.warning("%s", error.message)
        return whatifs


@dataclass(slots=True)
class ScriptState:
    """One script. ``asked``: the user has consented to running it, by profiling it now or in an earlier session."""

    uri: str
    path: str
    prepared: Prepared | None = None
    error: SkylineError | None = None
    job: CaptureJob | None = None
    asked: bool = False
    options: ProfileOptions = field(default_factory=ProfileOptions)
    stale: bool = False
    attempt: dict[str, str | None] = field(default_factory=dict)
    """The texts of the latest run by path, successful or not. None: the file could not be read."""
    estimates: OrderedDict[Question, Estimate] = field(default_factory=OrderedDict)
    curves: dict[tuple[Choice, ...], tuple[CurvePoint, ...]] = field(default_factory=dict)
    """Batch-size curves by the set of what-ifs that was requested."""
    former: Profile | None = None
    """The latest profile with a curve whose code differs from the current one's: an undo brings its code back."""

    def accept(self, prepared: Prepared) -> None:
        """Replace the current profile with a newer one."""
        last = self.prepared.profile if self.prepared is not None else None
        if last is not None and batch_trials(last.trials) and last.sources != prepared.profile.sources:
            self.former = last
        self.prepared, self.error, self.stale = prepared, None, False
        self.estimates.clear()
        self.curves.clear()

    def clear(self) -> None:
        """Forget all results. The script is not measured again until the user asks for it."""
        self.prepared, self.error, self.stale, self.asked = None, None, False, False
        self.former = None
        self.attempt.clear()
        self.estimates.clear()
        self.curves.clear()

    def files(self) -> set[str]:
        """All files whose changes can make the profile stale."""
        known = set(self.prepared.sources) if self.prepared else set[str]()
        return known | self.settings_files() | set(self.attempt) | {self.path}

    def settings_files(self) -> set[str]:
        """The files that hold settings of the profiled run, such as the batch size, at a known place."""
        return {place.file for place in self.prepared.settings} if self.prepared else set()

    def is_stale(self, texts: Texts) -> bool:
        """True if the behaviour of a profiled file has changed since."""
        if self.prepared is None:
            return False
        for place in self.prepared.settings:
            now = texts.current(place.file)
            # Compare only the number: the rest of the file was not recorded.
            if now is None or not still_holds(place, now.text):
                return True
        return any(differs(texts, source.path, source.text) for source in self.prepared.sources.values())

    def changed_since_attempt(self, texts: Texts) -> bool:
        """True if the code has changed in effect since the latest run."""
        return not self.attempt or any(differs(texts, path, text) for path, text in self.attempt.items())

    def profiled(self) -> Prepared:
        """The latest profile. Raises SkylineError with the next step if there is none."""
        if self.prepared is None:
            raise no_profile()
        return self.prepared

    def estimate(self, question: Question) -> Estimate:
        """The estimate for a question, cached. Raises SkylineError if there is no profile."""
        prepared = self.profiled()
        known = self.estimates.get(question)
        if known is None:
            known = self.estimates[question] = estimate(prepared.analysis, question)
            if len(self.estimates) > _REMEMBERED_ESTIMATES:
                self.estimates.popitem(last=False)
        return known


class Scripts:
    """All scripts of a session, by path."""

    def __init__(self) -> None:
        self._states: dict[str, ScriptState] = {}

    def __iter__(self) -> Iterator[ScriptState]:
        return iter(self._states.values())

    def at(self, path: str) -> ScriptState | None:
        """The state of a script. None if no request has named it yet."""
        return self._states.get(path)

    def ensure(self, uri: str, path: str) -> ScriptState:
        """The state of a script, created on first use. Keeps the client's latest spelling of the URI."""
        state = self._states.setdefault(path, ScriptState(uri, path))
        state.uri = uri
        return state

    def covering(self, path: str) -> ScriptState | None:
        """The script whose profile is shown in a file: the one with the newest profile that includes the file."""
        known = [state for state in self if state.prepared is not None and path in state.prepared.sources]
        return max(
            known, key=lambda state: state.prepared.report.created if state.prepared else "", default=None
        )

    def set_by(self, path: str) -> list[ScriptState]:
        """The scripts whose profiles take the batch size from this settings file."""
        return [
            state
            for state in self
            if state.prepared is not None
            and (lives := state.prepared.report.batch_size.lives) is not None
            and lives.file == path
        ]

    def with_batch_size_in(self, path: str) -> list[ScriptState]:
        """The scripts whose batch size may be in a file: the one whose profile is shown there, else ``set_by``."""
        covering = self.covering(path)
        return [covering] if covering is not None else self.set_by(path)

    def concerned_by(self, path: str) -> list[ScriptState]:
        """The scripts whose profiles a change of this file may make stale."""
        return [state for state in self if path in state.files()]


def no_profile() -> SkylineError:
    """The error for a question about a script that was not profiled."""
    return SkylineError(
        "There is no profile of this script yet", hint="Run the command skyline.profile first."
    )


def differs(texts: Texts, path: str, text: str | None) -> bool:
    """True if the code of a file behaves differently from ``text``."""
    current = texts.current(path)
    if current is None or text is None:
        return current is not None or text is not None
    if same_text(current.text, text):
        return False
    if is_settings_file(path):
        return not same_settings(path, current.text, text)
    document = texts.at(path)
    if document is not None and document.dirty:
        # Parsing at every keystroke would be noticeable.
        return True
    # A change of comments or layout does not change the run: the numbers stay and move with their lines.
    return not same_code(current.text, text)
