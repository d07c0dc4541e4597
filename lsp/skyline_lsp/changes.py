"""The code changes that a profile suggests, with their edits and the lines at which they are offered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from skyline.analysis.analyse import Analysis
from skyline.analysis.estimate import estimate
from skyline.errors import SkylineError
from skyline.lazy_dataclass import dataclass
from skyline.report.schema import EstimateReport, FindingReport, WhatIfReport
from skyline.source.text import TextEdit
from skyline.whatif.question import Choice, Question

_IMPORTS = ("import ", "from ")


@dataclass(frozen=True, slots=True)
class ApplicableChange:
    """An applicable what-if. ``places`` are the files and lines of the profiled code.

    Without ``edits`` it cannot be written; ``refused`` gives the reason.
    """

    estimate: EstimateReport
    edits: tuple[TextEdit, ...]
    places: frozenset[tuple[str, int]]
    refused: str = ""


def changes(
    analysis: Analysis, whatifs: WhatIfReport, findings: Iterable[FindingReport] = ()
) -> tuple[ApplicableChange, ...]:
    """Every applicable what-if that has a rewrite, in the report's order, then cures with other values."""
    known = {one.spec for one in whatifs.estimates}
    cures = [one.whatif for one in findings if one.whatif and "=" in one.whatif and one.whatif not in known]
    further = [estimate(analysis, Question(choices=(Choice.parse(cure),))) for cure in dict.fromkeys(cures)]
    return tuple(_changes(analysis, (*whatifs.estimates, *further)))


def _changes(analysis: Analysis, estimates: Iterable[EstimateReport]) -> Iterator[ApplicableChange]:
    loop = analysis.profile.loop_line
    for answer in estimates:
        if not answer.applicable or answer.rewrite == "none":
            continue
        tried = analysis.rewrites.tried(answer.name, answer.value)
        if tried.edits:
            yield ApplicableChange(answer, tried.edits, frozenset(_touched(tried.edits)))
        elif tried.refused is not None:
            error = tried.refused
            known = (error.file, error.line) if error.file and error.line else None
            place = known or ((loop.file, loop.line) if loop else None)
            if place is not None:
                yield ApplicableChange(answer, (), frozenset({place}), _reason(error))


def _touched(edits: tuple[TextEdit, ...]) -> Iterator[tuple[str, int]]:
    """The lines at which to offer a change. Lines of added imports count only if there are no other edits."""
    essential = [edit for edit in edits if not edit.new_text.strip().startswith(_IMPORTS)] or edits
    for edit in essential:
        span = edit.span
        # An edit that ends at the start of a line does not change that line.
        last = span.end_line - 1 if span.end_column == 0 and span.end_line > span.line else span.end_line
        for line in range(span.line, last + 1):
            yield span.file, line
        if not edit.old_text and span.column == 0 and edit.new_text.endswith("\n") and span.line > 1:
            yield span.file, span.line - 1


def _reason(error: SkylineError) -> str:
    return f"{error.message.rstrip('.')}. {error.hint}" if error.hint else error.message
