"""The effect of other batch sizes: time, throughput and memory, and which points were measured."""

from __future__ import annotations

from rich.text import Text

from skyline import units
from skyline.memory.fit import Fit, fit
from skyline.report.basis import batch_size_remark, measured_range, point_basis
from skyline.report.schema import CurvePointReport, ProfileReport
from skyline.report.text.page import GUTTER, Column, Page, column_width

SHOWN = 12
_REMARKS = {Fit.FITS: "", Fit.UNSURE: ", may not fit", Fit.TOO_LARGE: ", too large"}
_STYLES = {"measured": "", "predicted": "", "interpolated": "dim", "extrapolated": "dim italic"}


def render_curve(report: ProfileReport, page: Page) -> None:
    """One row per batch size; the script's own is marked."""
    points = thinned(report.curve, report.batch_size.value, SHOWN)
    if not points:
        page.title("Batch size")
        _render_knob(report, page)
        return
    page.title("Batch size", measured_range(report.curve))
    time = units.time_scale(point.iteration_ms.value for point in points)
    rate = units.rate_scale(point.throughput.value for point in points)
    # The unit of the smallest: in that of the largest it would round to nothing.
    size = units.byte_scale([min(point.peak_bytes.value for point in points)])
    best = max(point.throughput.value for point in points)
    usable = report.memory.usable_bytes or report.memory.capacity_bytes
    cells: list[tuple[Text, ...]] = []
    for point in points:
        basis = point_basis(point, predicted=report.mode == "predicted")
        style = _STYLES[basis]
        now = point.batch_size == report.batch_size.value
        verdict = fit(point.peak_bytes, usable)
        over = verdict is not Fit.FITS
        remark = basis + (f"  {page.glyphs.mark} now" if now else "") + _REMARKS[verdict]
        cells.append(
            (
                page.text(str(point.batch_size), "bold" if now else style),
                page.text(time.number_with_spread(point.iteration_ms), style),
                page.text(rate.number_with_spread(point.throughput), style),
                page.text(size.number(point.peak_bytes.value), style),
                page.text(remark, "bold" if now else "red" if over else style),
            )
        )
    titles = ("batch", time.unit, rate.unit, f"peak {size.unit}", "")
    taken = [column_width(title, [row[i] for row in cells]) + GUTTER for i, title in enumerate(titles)]
    bar_width = max(4, min(40, page.width - sum(taken)))
    rows = [
        (*row[:3], _bar(point, best, bar_width, page), *row[3:])
        for row, point in zip(cells, points, strict=True)
    ]
    columns = [Column(title) for title in titles]
    page.table((*columns[:3], Column("", "left"), columns[3], Column("", "left")), rows)
    _render_knob(report, page)


def thinned(
    curve: tuple[CurvePointReport, ...], current: int | None, limit: int
) -> tuple[CurvePointReport, ...]:
    """About ``limit`` points in order: the measured ones, the current one, an even choice of the rest."""
    ordered = sorted(curve, key=lambda point: point.batch_size)
    if len(ordered) <= limit:
        return tuple(ordered)
    kept = {index for index, point in enumerate(ordered) if point.measured or point.batch_size == current}
    kept |= {len(ordered) - 1}
    free = [index for index in range(len(ordered)) if index not in kept]
    want = max(0, limit - len(kept))
    if want:
        kept |= {free[int((k + 0.5) * len(free) / want)] for k in range(min(want, len(free)))}
    return tuple(ordered[index] for index in sorted(kept))


def _bar(point: CurvePointReport, best: float, width: int, page: Page) -> Text:
    if point.measured:
        return Text(page.glyphs.bar(point.throughput.value / best, width), style="cyan")
    cells = max(1, round(point.throughput.value / best * width))
    return Text(page.glyphs.hollow * cells, style="cyan" if not point.extrapolated else "bright_black")


def _render_knob(report: ProfileReport, page: Page) -> None:
    knob = report.batch_size.knob
    where = page.place(knob.file, knob.line, 200).plain if knob is not None else ""
    remark = batch_size_remark(report, where)
    if remark:
        page.paragraph(remark, style="dim")
