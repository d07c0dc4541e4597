"""What is known about each script: its latest profile made ready, how fresh it is, what went wrong last."""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import estimate
from skyline.analysis.line_parts import Place
from skyline.errors import SkylineError
from skyline.ledger.ledger import Ledger, LedgerUnusable
from skyline.report import build
from skyline.report.headline import headline
from skyline.report.schema import LineReport, ProfileReport, WhatIfReport
from skyline.report.verification import with_ledger
from skyline.source.same_code import same_code
from skyline.source.text import SourceText
from skyline.trace.profile import Profile
from skyline.whatif.curve_point import CurvePoint
from skyline.whatif.estimate import Estimate
from skyline.whatif.question import Choice, Question
from skyline_lsp.changes import ApplicableChange, changes
from skyline_lsp.function_cost import FunctionCost, function_costs
from skyline_lsp.job import CaptureJob
from skyline_lsp.line_detail import LineDetail, line_details
from skyline_lsp.options import ProfileOptions
from skyline_lsp.texts import Texts

logger = logging.getLogger(__name__)

_REMEMBERED_ESTIMATES = 512


@dataclass(frozen=True, slots=True)
class Prepared:
    """A profile with everything computed that a keystroke may ask for."""

    profile: Profile
    analysis: Analysis
    report: ProfileReport
    whatifs: WhatIfReport
    headline: str
    lines: dict[str, dict[int, LineReport]]
    """Rows by file and line, without the unattributed one."""
    details: dict[Place, LineDetail]
    """What is known beside the cost of a line, by file and line."""
    functions: dict[str, tuple[FunctionCost, ...]]
    """What the lines of each function and class take together, by file."""
    sources: dict[str, SourceText]
    """The files as they were profiled."""
    changes: tuple[ApplicableChange, ...]
    """What could be changed in the code, and where."""


def prepare(profile: Profile) -> Prepared:
    """Analyse a profile and index it; takes a moment, so it belongs on a worker thread."""
    analysis = analyse(profile)
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
    )


def with_records(whatifs: WhatIfReport, analysis: Analysis) -> WhatIfReport:
    """The answers with what the ledger tells of earlier predictions; as they are where it cannot be read."""
    try:
        return with_ledger(whatifs, analysis, Ledger().entries())
    except LedgerUnusable as error:
        logger.warning("%s", error.message)
        return whatifs


@dataclass(slots=True)
class ScriptState:
    """One script. ``asked`` tells that the person has had it run in this session."""

    uri: str
    path: str
    prepared: Prepared | None = None
    error: SkylineError | None = None
    job: CaptureJob | None = None
    asked: bool = False
    options: ProfileOptions = field(default_factory=ProfileOptions)
    stale: bool = False
    attempt: dict[str, str | None] = field(default_factory=dict)
    """The texts that the latest run was made from, whether it succeeded or not; None: there was none to read."""
    estimates: OrderedDict[Question, Estimate] = field(default_factory=OrderedDict)
    curves: dict[tuple[Choice, ...], tuple[CurvePoint, ...]] = field(default_factory=dict)
    """The batch-size curve under what-ifs, for those that were asked about."""

    def accept(self, prepared: Prepared) -> None:
        """A newer profile takes the place of the one there was."""
        self.prepared, self.error, self.stale = prepared, None, False
        self.estimates.clear()
        self.curves.clear()

    def clear(self) -> None:
        """Nothing is known any more, and nothing is measured again until it is asked for."""
        self.prepared, self.error, self.stale, self.asked = None, None, False, False
        self.attempt.clear()
        self.estimates.clear()
        self.curves.clear()

    def files(self) -> set[str]:
        """Every file whose change makes the profile out of date."""
        known = set(self.prepared.sources) if self.prepared else set()
        if self.prepared is not None and self.prepared.profile.setting is not None:
            known.add(self.prepared.profile.setting.file)
        return known | set(self.attempt) | {self.path}

    def is_stale(self, texts: Texts) -> bool:
        """Whether any profiled file does something else by now."""
        if self.prepared is None:
            return False
        setting = self.prepared.profile.setting
        if setting is not None:
            now = texts.current(setting.file)
            # Only the number itself: what else such a file says is not known.
            if now is None or not re.search(
                rf"(?<!\w){re.escape(setting.text)}(?!\w)", now.line(setting.line)
            ):
                return True
        return any(_differs(texts, source.path, source.text) for source in self.prepared.sources.values())

    def changed_since_attempt(self, texts: Texts) -> bool:
        """Whether another run would do something else than the latest one did."""
        return not self.attempt or any(_differs(texts, path, text) for path, text in self.attempt.items())

    def estimate(self, question: Question) -> Estimate:
        """The answer to a question, from memory where it was asked before; needs a profile."""
        if self.prepared is None:
            raise SkylineError("There is no profile yet", hint="Run skyline.profile first.")
        known = self.estimates.get(question)
        if known is None:
            known = self.estimates[question] = estimate(self.prepared.analysis, question)
            if len(self.estimates) > _REMEMBERED_ESTIMATES:
                self.estimates.popitem(last=False)
        return known


class Scripts:
    """All scripts of a session by path."""

    def __init__(self) -> None:
        self._states: dict[str, ScriptState] = {}

    def __iter__(self) -> Iterator[ScriptState]:
        return iter(self._states.values())

    def at(self, path: str) -> ScriptState | None:
        """The state of a script, None where nothing was asked of it yet."""
        return self._states.get(path)

    def ensure(self, uri: str, path: str) -> ScriptState:
        """The state of a script, made on first use; the client's latest spelling of its URI is kept."""
        state = self._states.setdefault(path, ScriptState(uri, path))
        state.uri = uri
        return state

    def covering(self, path: str) -> ScriptState | None:
        """Whose profile to show in a file: the newest that has the file among its sources."""
        known = [state for state in self if state.prepared is not None and path in state.prepared.sources]
        return max(
            known, key=lambda state: state.prepared.report.created if state.prepared else "", default=None
        )

    def concerned_by(self, path: str) -> list[ScriptState]:
        """The scripts that a change of this file may make out of date."""
        return [state for state in self if path in state.files()]


def same_text(left: str, right: str) -> bool:
    """Equal but for the newline convention, which a capture may not have kept."""
    return left == right or left.replace("\r\n", "\n") == right.replace("\r\n", "\n")


def _differs(texts: Texts, path: str, text: str | None) -> bool:
    current = texts.current(path)
    if current is None or text is None:
        return current is not None or text is not None
    if same_text(current.text, text):
        return False
    document = texts.at(path)
    if document is not None and document.dirty:
        # Parsing at every keystroke would be felt.
        return True
    # What only a reader sees does not change what a run would show: the numbers stay, and move with their lines.
    return not same_code(current.text, text)
