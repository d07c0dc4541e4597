"""The effect of other batch sizes on time, throughput and memory, and which points were measured."""

from __future__ import annotations

from pathlib import Path

from skyline import units
from skyline.memory.peak import Fit, fit
from skyline.report.basis import batch_size_remark, measured_range, point_basis
from skyline.report.document import Bar, Cell, Column, Drawing, Row, Section, Stretch, TextTable, said
from skyline.report.place import place_of
from skyline.report.schema import CurvePointReport, ProfileReport

SHOWN = 12
_REMARKS = {Fit.FITS: "", Fit.UNSURE: ", may not fit", Fit.TOO_LARGE: ", too large"}
_TONES = {"measured": "", "predicted": "", "interpolated": "dim", "extrapolated": "dim italic"}


def curve_section(report: ProfileReport, base: Path | None) -> Section | None:
    """One row per batch size; the current one is marked. None if neither sizes nor a reason are known."""
    knob = report.batch_size.knob
    remark = batch_size_remark(report, place_of(knob, base) if knob is not None else "")
    points = thinned(report.curve, report.batch_size.value, SHOWN)
    if not points:
        return Section(tuple(said(remark)), "Batch size") if report.batch_size.reason else None
    time = units.time_scale(point.iteration_ms.value for point in points)
    rate = units.rate_scale(point.throughput.value for point in points)
    # The unit of the smallest size: the unit of the largest would round it to zero.
    size = units.byte_scale([min(point.peak_bytes.value for point in points)])
    best = max(point.throughput.value for point in points)
    usable = report.memory.usable_bytes or report.memory.capacity_bytes

    def row(point: CurvePointReport) -> Row:
        basis = point_basis(point, predicted=report.mode == "predicted")
        now = point.batch_size == report.batch_size.value
        verdict = fit(point.peak_bytes, usable)
        tone = _TONES[basis]
        colour = "bright_black" if point.extrapolated else "cyan"
        bar = Bar((Stretch(point.throughput.value / best, colour),), hollow=not point.measured)
        remark = basis + ("  ◀ now" if now else "") + _REMARKS[verdict]
        return Row(
            (
                Cell(str(point.batch_size), "bold" if now else tone),
                Cell(time.number_with_spread(point.iteration_ms), tone),
                Cell(rate.number_with_spread(point.throughput), tone),
                Cell("", graphic=bar),
                Cell(size.number(point.peak_bytes.value), tone),
                Cell(remark, "bold" if now else tone if verdict is Fit.FITS else "red"),
            )
        )

    columns = (
        *(Column(title) for title in ("batch", time.unit, rate.unit)),
        Column("", left=True),
        Column(f"peak {size.unit}"),
        Column("", left=True),
    )
    table = TextTable(columns, tuple(map(row, points)), only="terminal")
    aside = measured_range(report.curve)
    dots = "Filled dots were measured, hollow ones are predicted" if report.mode == "measured" else ""
    explained = ". ".join(filter(None, (dots, "The band around the line is the uncertainty")))
    return Section((table, Drawing("curve"), *said(remark)), "Batch size", aside, explained)


def thinned(
    curve: tuple[CurvePointReport, ...], current: int | None, limit: int
) -> tuple[CurvePointReport, ...]:
    """About ``limit`` points in order: the measured ones, the current one, and evenly spaced others."""
    ordered = sorted(curve, key=lambda point: point.batch_size)
    if len(ordered) <= limit:
        return tuple(ordered)
    kept = {index for index, point in enumerate(ordered) if point.measured or point.batch_size == current}
    chosen = filled_up(kept | {len(ordered) - 1}, len(ordered), limit)
    return tuple(ordered[index] for index in sorted(chosen))


def filled_up(kept: set[int], count: int, limit: int) -> set[int]:
    """The kept indices below ``count``, plus evenly spaced others up to ``limit`` in total."""
    free = [index for index in range(count) if index not in kept]
    wanted = max(0, limit - len(kept))
    return kept | {free[int((k + 0.5) * len(free) / wanted)] for k in range(min(wanted, len(free)))}
