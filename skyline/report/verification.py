"""Builds the report that other programs read from a verification."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from skyline.analysis.analyse import Analysis
from skyline.interval import Interval
from skyline.report.cells import with_cells
from skyline.report.schema import (
    VERIFY_SCHEMA,
    BaselineReport,
    MeasuredReport,
    VerifyReport,
)
from skyline.whatif.base import throughput_at
from skyline.whatif.question import Question

if TYPE_CHECKING:
    # These import the capture, which readers of saved profiles do not need.
    from skyline.verification.compare import Comparison, MeasuredRemoval
    from skyline.verification.measure import Measured
    from skyline.verification.verdict import Verdict
    from skyline.verification.verify import Verification


def verify_report(analysis: Analysis, found: Verification) -> VerifyReport:
    """A verification as ``skyline.verify/2``."""
    start, entry = analysis.baseline, found.entry
    before = throughput_at(start, analysis.profile.batch_size, start.iteration_ms)
    throughput = found.speedup.scaled(before.value) if before is not None else None
    verdict = found.verdict
    report = VerifyReport(
        schema=VERIFY_SCHEMA,
        script=entry.script,
        whatifs=tuple(entry.question.split(" ")),
        baseline=BaselineReport(
            start.iteration_ms, before, Interval.exact(float(start.peak.total)), analysis.replay_error
        ),
        predicted=found.estimate,
        measured=_measured(found.measured, verdict, found.iteration_ms, found.speedup, throughput),
        error=entry.error,
        held=entry.held,
        null_ratio=verdict.null.value,
        valid=found.valid,
        reason=verdict.reason or None,
        hint=verdict.hint or None,
        notes=(*found.notes, *((found.ledger_problem,) if found.ledger_problem else ())),
        diff=found.diff,
        entry=entry.id if found.ledger_path else None,
    )
    return with_cells(report, analysis.profile)


def compare_report(script: str, other: str, found: Comparison) -> VerifyReport:
    """Two scripts as ``skyline.verify/2``, without a prediction."""
    ratio = found.verdict.ratio
    measured = _measured(
        found.measured, found.verdict, ratio.scaled(found.measured.base_ms), ratio.inverse(1.0), None
    )
    return replace(_unpredicted(script, found, measured), against=other)


def removal_report(
    analysis: Analysis, removes: Iterable[str], question: Question, found: MeasuredRemoval
) -> VerifyReport:
    """A removal as ``skyline.verify/2``: measured over its profile, without a prediction."""
    start, own, compared = analysis.baseline, analysis.profile.batch_size, found.comparison
    before = throughput_at(start, own, start.iteration_ms)
    speedup = compared.verdict.ratio.inverse(found.samples)
    put = [] if question.batch_size is None else [f"batch_size={question.batch_size}"]
    measured = _measured(
        compared.measured,
        compared.verdict,
        compared.verdict.ratio.scaled(start.iteration_ms.value),
        speedup,
        speedup.scaled(before.value) if before is not None else None,
    )
    return replace(
        _unpredicted(analysis.profile.script, compared, measured),
        whatifs=(*(f"without {name}" for name in removes), *put, *map(str, question.choices)),
        baseline=BaselineReport(
            start.iteration_ms, before, Interval.exact(float(start.peak.total)), analysis.replay_error
        ),
        diff=found.diff,
    )


def _unpredicted(script: str, found: Comparison, measured: MeasuredReport) -> VerifyReport:
    verdict = found.verdict
    return VerifyReport(
        schema=VERIFY_SCHEMA,
        script=script,
        whatifs=(),
        baseline=None,
        predicted=None,
        measured=measured,
        error=None,
        held=None,
        null_ratio=verdict.null.value,
        valid=verdict.valid,
        reason=verdict.reason or None,
        hint=verdict.hint or None,
        notes=found.notes,
    )


def _measured(
    measured: Measured,
    verdict: Verdict,
    iteration_ms: Interval,
    speedup: Interval,
    throughput: Interval | None,
) -> MeasuredReport:
    return MeasuredReport(
        iteration_ms=iteration_ms,
        ratio=verdict.ratio,
        speedup=speedup,
        throughput=throughput,
        null=verdict.null,
        rounds=len(measured.trial.ratios),
        baseline_ms=measured.base_ms,
        others_cores=verdict.others_cores,
        baseline_peak_bytes=measured.base_peak_bytes,
        peak_bytes=measured.trial.peak_bytes,
    )
