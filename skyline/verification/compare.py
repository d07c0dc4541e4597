"""Measurements without a prediction: two scripts, or a script without some of its changes."""

from __future__ import annotations

import threading

from skyline.analysis.analyse import Analysis
from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, ProgressCallback
from skyline.lazy_dataclass import dataclass
from skyline.verification.change import change, check_unchanged
from skyline.verification.measure import Effort, Measured, measure
from skyline.verification.verdict import Verdict, judge
from skyline.verification.verify import check_measurable
from skyline.whatif.question import Question

_DEFAULT_EFFORT = Effort()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The trial of the other script, and its validity."""

    measured: Measured
    verdict: Verdict
    notes: tuple[str, ...] = ()


def compare(
    request: CaptureRequest,
    other: CaptureRequest,
    *,
    effort: Effort = _DEFAULT_EFFORT,
    progress: ProgressCallback,
    cancel: threading.Event | None = None,
    starter: Starter = start_fresh,
) -> Comparison:
    """Measure ``other`` in turns with ``request``; raises the exceptions of ``verify``."""
    measured = measure(
        request,
        other,
        effort,
        words=other.script.name,
        progress=progress,
        cancel=cancel,
        starter=starter,
    )
    verdict = judge(measured.trial, measured.base.facts.environment.cpu_count)
    before, after = measured.base.facts.batch_sizes_seen, measured.changed.facts.batch_sizes_seen
    notes = measured.notes
    if before[:1] != after[:1]:
        sizes = f"{_first(before)} and {_first(after)}"
        notes = (*notes, f"The two seem to have batches of {sizes}: times are per iteration, not per sample.")
    return Comparison(measured, verdict, notes)


def _first(sizes: tuple[int, ...]) -> str:
    return str(sizes[0]) if sizes else "a size that was not seen"


@dataclass(frozen=True, slots=True)
class MeasuredRemoval:
    """The measurement and the change: a unified diff, and the factor on the samples per iteration."""

    comparison: Comparison
    diff: str
    samples: float = 1.0


def verify_removal(
    analysis: Analysis,
    removes: tuple[str, ...],
    question: Question,
    *,
    request: CaptureRequest,
    effort: Effort = _DEFAULT_EFFORT,
    progress: ProgressCallback,
    cancel: threading.Event | None = None,
    starter: Starter = start_fresh,
) -> MeasuredRemoval:
    """Measure the profiled script without some what-ifs of its code, and with those of a question.

    A removal has no prediction, so nothing is added to the ledger. Raises the exceptions of ``verify``.
    """
    profile = analysis.profile
    check_measurable(profile)
    check_unchanged(analysis, request)
    changed = change(analysis, question, request.arguments, removes)
    found = compare(
        request, changed.over(request), effort=effort, progress=progress, cancel=cancel, starter=starter
    )
    size, own = question.batch_size, profile.batch_size
    return MeasuredRemoval(found, changed.diff, size / own if size and own else 1.0)
