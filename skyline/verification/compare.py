"""Comparison of two scripts without a prediction, such as a copy with the user's own edit."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, ProgressCallback
from skyline.verification.measure import Effort, Measured, measure
from skyline.verification.verdict import Verdict, judge

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
