"""A sweep on a page: the findings in sentences, and a row for each point with its marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from skyline import units
from skyline.memory.peak import Fit
from skyline.report.document import (
    Bar,
    Block,
    Cell,
    Column,
    Document,
    Drawing,
    Paragraph,
    Row,
    Section,
    Stretch,
    TextTable,
    Title,
    document,
    paragraphs,
)
from skyline.report.pages.curve import filled_up
from skyline.report.place import place
from skyline.report.sweep import (
    MEASURED,
    SweepPointReport,
    SweepReport,
    SweepSeriesReport,
    SweptSettingReport,
    script_name,
    values_words,
)

SHOWN = 40
_NONE = "-"
_FITS = {Fit.UNSURE.value: "may not fit", Fit.TOO_LARGE.value: "too large"}


def sweep_page(report: SweepReport, base: Path | None = None) -> Document:
    """A section per series, the failed points, and the basis of the figures; paths are relative to ``base``."""
    names = [one.name for one in report.settings]
    ranges = ", ".join(_range(one.name, one.values) for one in report.settings)
    where = "; ".join(_where(one, base) for one in report.settings)
    return document(
        Section(
            (
                Title(f"{script_name(report)}: {ranges}", _kind(report), plain=True),
                Paragraph(where, "dim"),
            )
        ),
        *(_series(one, report, names[1:]) for one in report.series),
        paragraphs("Left out", _failed(report, names)),
        paragraphs("Basis", report.basis),
        paragraphs("Notes", report.notes),
    )


def _kind(report: SweepReport) -> str:
    """The provenance of the times, as in ``predicted for NVIDIA H100``."""
    every = [point for series in report.series for point in series.points]
    ran = sum(point.provenance == MEASURED for point in every)
    if report.mode == "predicted" and not ran:
        return f"predicted for {report.device}"
    if ran == len(every):
        return f"measured on {report.device}"
    return f"{ran} of {len(every)} values measured, the others interpolated, on {report.device}"


def _range(name: str, values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{name} {values[0]}"
    return f"{name} from {values[0]} to {values[-1]}"


def _where(setting: SweptSettingReport, base: Path | None) -> str:
    at = place(setting.file, setting.line, base)
    now = f", {setting.value} now" if setting.value is not None else ""
    return f"{setting.name}: {at}{now}"


def _series(series: SweepSeriesReport, report: SweepReport, others: Sequence[str]) -> Section:
    title = f"With {values_words(others, series.others)}" if others else ""
    told: list[Block] = [Paragraph(text, bullet="•") for text in series.sentences]
    table = _table(series, report)
    left = len(series.points) - len(table.rows)
    blocks: list[Block] = [*told, table]
    if left:
        blocks.append(
            Paragraph(f"{units.plural(left, 'row')} between these are left out; --json has all.", "dim")
        )
    if not report.series or series is report.series[0]:
        blocks.append(Drawing("curve"))
    return Section(tuple(blocks), title)


def _table(series: SweepSeriesReport, report: SweepReport) -> TextTable:
    points = series.points
    marks = _marks(series)
    shown = _shown(points, marks)
    time = units.time_scale(point.iteration_ms.value for point in points)
    rate = units.rate_scale(point.throughput.value for point in points if point.throughput)
    size = units.byte_scale([max((point.peak_bytes or 0) for point in points)])
    mixed = len({point.provenance for point in points}) > 1
    longest = max(point.iteration_ms.value for point in points)
    speed, unit = _flop_scale(point.flop_per_s or 0.0 for point in points)
    columns = (
        Column(report.name),
        Column(time.unit),
        Column("", left=True),
        Column(rate.unit, spared=2),
        Column(f"peak {size.unit}"),
        Column(unit, spared=1),
        Column("of peak", spared=6),
        Column("GPU busy", spared=3),
        Column("tiles", spared=5),
        Column("waves", spared=4),
        Column("", left=True),
    )

    def row(point: SweepPointReport) -> Row:
        value = point.values[0]
        ran = "ran" if mixed and point.provenance == MEASURED else ""
        now = "◀ now" if point.now else ""
        mark = "  ".join(filter(None, (ran, *marks.get(value, ()), now, _FITS.get(point.fits, ""))))
        stepped = any(step.after == value and step.change > 0 for step in series.steps)
        tone = "dim" if point.fits == Fit.TOO_LARGE.value else ""
        colour = "yellow" if stepped else "bright_black" if tone else "cyan"
        bar = Bar((Stretch(point.iteration_ms.value / longest, colour),), hollow=point.provenance != MEASURED)
        return Row(
            (
                Cell(str(value), "bold" if point.now else tone),
                Cell(time.number_with_spread(point.iteration_ms), tone),
                Cell("", graphic=bar),
                Cell(rate.number(point.throughput.value) if point.throughput else _NONE, tone),
                Cell(size.number(point.peak_bytes) if point.peak_bytes is not None else _NONE, tone),
                Cell(_figure(point.flop_per_s, speed), tone),
                Cell(_share(point.utilisation), tone),
                Cell(_share(point.busy_share), tone),
                Cell(_share(point.tile_share), tone),
                Cell(_share(point.wave_share), tone),
                Cell(mark, "yellow" if stepped else "bold" if mark else ""),
            )
        )

    rows = tuple(row(point) for point in points if point.values[0] in shown)
    return _without_empty(columns, rows)


def _without_empty(columns: Sequence[Column], rows: Sequence[Row]) -> TextTable:
    """The table without columns whose values are all unknown."""
    kept = [
        index
        for index in range(len(columns))
        if any(one.cells[index].graphic or one.cells[index].text not in ("", _NONE) for one in rows)
    ]
    return TextTable(
        tuple(columns[index] for index in kept),
        tuple(Row(tuple(one.cells[index] for index in kept)) for one in rows),
    )


def _marks(series: SweepSeriesReport) -> dict[float, list[str]]:
    """The remarks behind the rows, by value."""
    marks: dict[float, list[str]] = {}
    for step in series.steps:
        marks.setdefault(step.after, []).append(f"step {units.format_share_delta(step.change)}")
    if series.knee is not None:
        marks.setdefault(series.knee.value, []).append("knee")
    for one in series.faster:
        marks.setdefault(one.value, []).append(f"faster than {one.first}")
    return marks


def _shown(points: Sequence[SweepPointReport], marks: dict[float, list[str]]) -> set[float]:
    """The values of the shown rows: all if few, else marked ones, those before them, and others."""
    values = [point.values[0] for point in points]
    if len(values) <= SHOWN:
        return set(values)
    kept = {index for index, point in enumerate(points) if point.now or point.values[0] in marks}
    kept |= {index - 1 for index in kept if index} | {0, len(values) - 1}
    return {values[index] for index in filled_up(kept, len(values), SHOWN)}


def _failed(report: SweepReport, names: Sequence[str]) -> list[str]:
    """The failed points, grouped by reason."""
    reasons: dict[str, list[str]] = {}
    for one in report.failed:
        reasons.setdefault(one.reason, []).append(values_words(names, one.values))
    return [f"{', '.join(values)}: {reason}" for reason, values in reasons.items()]


def _flop_scale(values: Iterable[float]) -> tuple[float, str]:
    largest = max(values, default=0.0)
    for unit, size in (("PFLOP/s", 1e15), ("TFLOP/s", 1e12), ("GFLOP/s", 1e9)):
        if largest >= size:
            return size, unit
    return 1e6, "MFLOP/s"


def _figure(value: float | None, size: float) -> str:
    return _NONE if value is None else f"{value / size:.3g}"


def _share(share: float | None) -> str:
    return _NONE if share is None else units.format_share(share)
