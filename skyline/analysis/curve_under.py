"""The batch-size curve as it would be with other changes made."""

from __future__ import annotations

from collections.abc import Iterable

from skyline.analysis.analyse import Analysis
from skyline.analysis.estimate import answer_or_reason, estimate
from skyline.memory.capacity import usable_bytes
from skyline.memory.fit import Fit, fit
from skyline.whatif.catalogue.memory.batch_size import offered_sizes
from skyline.whatif.curve_point import CurvePoint
from skyline.whatif.question import BATCH_SIZE, Choice, Question


def curve_under(analysis: Analysis, choices: Iterable[Choice]) -> tuple[CurvePoint, ...]:
    """Time and memory at the sizes worth showing, each simulated together with ``choices``, smallest first.

    A batch size among ``choices`` does not count. Sizes that fit only with the changes are there, those that do not
    fit any more are not. Empty where the changes, or other batch sizes, cannot be answered.

    Raises:
        UsageError: a what-if that does not exist, or a value it does not take.
    """
    changes = tuple(choice for choice in choices if choice.name != BATCH_SIZE)
    if not changes:
        return analysis.curve
    curve = analysis.baseline.curve
    usable = usable_bytes(analysis.profile)
    points: list[CurvePoint] = []
    # A value that makes no sense for the script as it stands is a mistake; at another size it has no point.
    estimate(analysis, Question(None, changes))
    for size in offered_sizes(analysis.baseline):
        own = size == curve.base
        found = answer_or_reason(
            analysis.baseline, Question(None if own else size, changes).all_choices, analysis.rewrites
        )
        if not found.applicable or found.throughput is None:
            continue
        if own or fit(found.peak, usable) is not Fit.TOO_LARGE:
            points.append(
                CurvePoint(
                    size,
                    found.iteration_ms,
                    found.throughput,
                    found.peak,
                    measured=False,
                    extrapolated=curve.extrapolated(size),
                )
            )
    return tuple(points)
