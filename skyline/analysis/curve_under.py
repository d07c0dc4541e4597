"""The batch-size curve in combination with other changes."""

from __future__ import annotations

from collections.abc import Iterable

from skyline.analysis.analyse import Analysis
from skyline.analysis.estimate import answer_or_reason, estimate
from skyline.memory.capacity import Fit, fit, usable_bytes
from skyline.whatif.catalogue.memory.batch_size import offered_sizes
from skyline.whatif.curve_point import CurvePoint
from skyline.whatif.question import BATCH_SIZE, Choice, Question


def curve_under(analysis: Analysis, choices: Iterable[Choice]) -> tuple[CurvePoint, ...]:
    """Time and memory at the sizes to display, each simulated together with ``choices``, smallest first.

    A batch size among ``choices`` is ignored. Sizes that fit only with the changes are included, sizes that no longer
    fit are not. Empty if the changes, or other batch sizes, have no answer.

    Raises:
        UsageError: a what-if does not exist, or does not accept its value.
    """
    changes = tuple(choice for choice in choices if choice.name != BATCH_SIZE)
    if not changes:
        return analysis.curve
    curve = analysis.baseline.curve
    usable = usable_bytes(analysis.profile)
    points: list[CurvePoint] = []
    # An invalid value for the unchanged script is an error; at another size the point is omitted.
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
