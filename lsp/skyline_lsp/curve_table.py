"""The batch-size curve as a Markdown table with the size in the code in bold."""

from __future__ import annotations

from collections.abc import Sequence

from skyline import units
from skyline.analysis.analyse import Analysis
from skyline.memory.peak import Fit, fit, usable_bytes
from skyline.report import basis
from skyline.report.schema import CurvePointReport, ProfileReport
from skyline.whatif.catalogue.memory.batch_size import offered_sizes
from skyline.whatif.question import CurvePoint, Estimate

_MOST_ROWS = 12


def largest_that_fits(analysis: Analysis) -> int | None:
    """The largest batch size of the curve that certainly fits into memory.

    None if the memory's capacity is unknown, if no size certainly fits, or if all offered sizes do.
    """
    curve, usable = analysis.baseline.curve, usable_bytes(analysis.profile)
    offered = offered_sizes(analysis.baseline)
    if not usable or not offered:
        return None
    certain = [size for size in offered if fit(curve.peak_bytes(size), usable) is Fit.FITS]
    largest = max(certain, default=None)
    return largest if largest is not None and largest < offered[-1] else None


def point_of(answer: Estimate, size: int) -> CurvePoint | None:
    """An estimate for a size between or beyond the points of the curve, as a point."""
    if not answer.applicable or answer.throughput is None:
        return None
    return CurvePoint(
        size,
        answer.iteration_ms,
        answer.throughput,
        answer.peak,
        measured=False,
        extrapolated=answer.extrapolated,
    )


def curve_table(
    report: ProfileReport,
    curve: Sequence[CurvePointReport],
    *,
    current: int,
    largest: int | None,
    stale: bool = False,
) -> str:
    """The table with at most a dozen rows, smallest size first. Empty if there is no curve.

    ``current`` is the size in the code. ``largest`` is the largest that fits into memory, if known.
    """
    if not curve:
        return ""
    shown = _chosen(curve, current, largest)
    rate = units.rate_scale(point.throughput.value for point in shown)
    time = units.time_scale(point.iteration_ms.value for point in shown)
    size = units.byte_scale(point.peak_bytes.value for point in shown)
    rows = [
        (
            str(point.batch_size),
            rate.number_with_spread(point.throughput),
            time.number_with_spread(point.iteration_ms),
            size.number(point.peak_bytes.value),
            _basis(point, report, current, largest),
        )
        for point in shown
    ]
    head = ("batch size", rate.unit, f"{time.unit} per iteration", f"peak memory, {size.unit}", "basis")
    lines = [
        _row(head),
        "|--:|--:|--:|--:|:--|",
        *(
            _row(tuple(f"**{cell}**" for cell in row) if point.batch_size == current else row)
            for point, row in zip(shown, rows, strict=True)
        ),
    ]
    return "\n".join([f"**Batch size {current}**", "", *lines, "", _source(report, largest, stale=stale)])


def _chosen(
    curve: Sequence[CurvePointReport], current: int, largest: int | None
) -> tuple[CurvePointReport, ...]:
    """The points to show. Priority: size in the code, largest that fits, both ends, measured, others."""
    ends = {min(point.batch_size for point in curve), max(point.batch_size for point in curve)}

    def rank(point: CurvePointReport) -> int:
        return [
            point.batch_size == current,
            point.batch_size == largest,
            point.batch_size in ends,
            point.measured,
            True,
        ].index(True)

    kept = sorted(curve, key=rank)[:_MOST_ROWS]
    return tuple(sorted(kept, key=lambda point: point.batch_size))


def _basis(point: CurvePointReport, report: ProfileReport, current: int, largest: int | None) -> str:
    words = [basis.point_basis(point, predicted=report.prediction is not None)]
    if point.batch_size == current:
        words.append("in the code")
    if point.batch_size == largest:
        words.append("largest that fits")
    return ", ".join(words)


def _source(report: ProfileReport, largest: int | None, *, stale: bool) -> str:
    parts = ["; ".join(basis.basis_parts(report))]
    usable = report.memory.usable_bytes
    if largest is not None and usable:
        parts.append(f"{largest} is the largest of these sizes that fits into {units.format_bytes(usable)}")
    note = "\n\n~ the code changed since: profile again for current numbers" if stale else ""
    return f"*{'. '.join(parts)}*{note}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
