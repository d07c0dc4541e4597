"""A script on several GPUs, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10

from rich.console import Console
from rich.text import Text

from skyline import units
from skyline.analysis.gpu_costs import GpuRunCost
from skyline.interval import Interval
from skyline.memory.fit import Fit
from skyline.report.basis import when
from skyline.report.devices import DeviceReport, DevicesReport
from skyline.report.text.page import GUTTER, Column, Page, column_width

_FITS = {Fit.FITS.value: "yes", Fit.UNSURE.value: "maybe", Fit.TOO_LARGE.value: "no"}
_UNKNOWN = "-"
_NONE = "none"
_TIMES = (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3))
_ENERGIES = (("MWh", 1e3), ("kWh", 1.0), ("Wh", 1e-3), ("J", 1 / 3.6e6))
_MASSES = (("t", 1e6), ("kg", 1e3), ("g", 1.0), ("mg", 1e-3))


def render_devices(report: DevicesReport, console: Console) -> None:
    """Time and memory of an iteration on each GPU, then what an epoch costs there, then what that rests on."""
    page = Page.on(console, None)
    page.blank()
    page.line(page.text(f"{report.command_line} on {_count(len(report.devices), 'GPU')}", "bold"))
    page.paragraph(f"predicted {when(report.created)}, nothing was run on a GPU", style="dim")
    page.blank()
    _render_iterations(report, page)
    page.blank()
    _render_span(report, page)
    page.blank()
    _render_prices(report, page)
    page.blank()
    page.title("Basis of these figures")
    for said in (*_bases(report.devices), *_traced(report), *report.assumptions, *report.notes):
        page.paragraph(said, bullet=page.glyphs.bullet)
    page.blank()


def _render_iterations(report: DevicesReport, page: Page) -> None:
    times = units.time_scale([one.as_is.iteration_ms.value for one in report.devices])
    batch = f"batch {report.batch_size}" if report.batch_size is not None else "unchanged"
    page.title("An iteration", f"{batch}; times in {times.unit}")
    columns = (
        Column("GPU", "left"),
        Column("time"),
        Column("samples/s"),
        Column("GPU busy"),
        Column("peak memory"),
        Column("fits"),
        Column("largest batch"),
        Column("samples/s there"),
    )
    rows = [
        (
            page.text(_name(one), "bold"),
            page.text(times.number_with_spread(one.as_is.iteration_ms)),
            page.text(_rate(one.as_is)),
            page.text(units.format_share(one.as_is.busy_share)),
            page.text(units.format_bytes_of(one.as_is.peak_bytes, one.memory_bytes)),
            page.text(_FITS[one.fits], "red" if one.fits != Fit.FITS.value else "green"),
            page.text(_largest(one)),
            page.text(_there(one)),
        )
        for one in report.devices
    ]
    _table(page, columns, rows, spared=("samples/s there", "GPU busy"))
    found = [_largest(one) for one in report.devices]
    marks = ("~ extrapolated, not traced", "+ larger ones were not tried")
    said = [mark for mark in marks if any(mark[0] in text for text in found)]
    if said:
        page.paragraph("; ".join(said), style="dim")
    reasons = dict.fromkeys(one.largest_batch.reason for one in report.devices if one.largest_batch.reason)
    for reason in reasons:
        page.paragraph(f"No largest batch: {reason}.")


def _render_span(report: DevicesReport, page: Page) -> None:
    span = report.span
    runs = [(one, _shown(one)) for one in report.devices]
    known = [run for _, shown in runs for run in shown]
    seconds, kwh = _time_unit(known), _energy_unit(known)
    grams = _mass_unit(known)
    samples = f"{span.samples:,.0f} samples" if span.samples else f"{span.iterations:,.0f} iterations"
    title = "An epoch" if span.epoch else f"{span.iterations:,.0f} iterations"
    page.title(title, samples if span.epoch else "" if not span.samples else samples)
    columns = (
        Column("GPU", "left"),
        Column("batch"),
        Column(f"time ({seconds[0]})"),
        Column("cost ($)"),
        Column(f"energy ({kwh[0]})"),
        Column(f"CO2 ({grams[0]})"),
    )
    rows: list[tuple[Text, ...]] = []
    for one, shown in runs:
        lines = [_cells(run, seconds[1], kwh[1], grams[1]) for run in shown] or [[_UNKNOWN] * 5]
        for number, cells in enumerate(lines):
            name = "" if number else _name(one)
            rows.append((page.text(name, "bold"), *(page.text(cell) for cell in cells)))
    if known:
        _table(page, columns, rows, spared=(f"CO2 ({grams[0]})",))
    without = [one for one, shown in runs if not shown]
    none_at_all = [one.gpu for one in without if _largest(one) == _NONE]
    untraced = [one.gpu for one in without if _largest(one) != _NONE]
    if none_at_all:
        page.paragraph(f"Not even a batch of one fits on {', '.join(none_at_all)}.", style="red")
    if untraced:
        page.paragraph(f"No batch size that was traced fits on {', '.join(untraced)}.", style="red")


def _shown(one: DeviceReport) -> list[GpuRunCost]:
    """The unchanged script unless it is too large, and the largest batch that fits and was traced."""
    as_is = [] if one.fits == Fit.TOO_LARGE.value else [one.as_is]
    fullest = [] if one.fullest is None or one.fullest == one.as_is else [one.fullest]
    return [*as_is, *fullest]


def _cells(run: GpuRunCost, seconds: float, kwh: float, grams: float) -> list[str]:
    return [
        str(run.batch_size) if run.batch_size is not None else _UNKNOWN,
        _range(run.time_s.scaled(seconds)),
        _range(run.cost_usd) if run.cost_usd is not None else _UNKNOWN,
        _range(run.energy_kwh.scaled(kwh)),
        _range(run.carbon_g.scaled(grams)),
    ]


def _table(
    page: Page, columns: Sequence[Column], rows: list[tuple[Text, ...]], spared: Sequence[str]
) -> None:
    """The table without those of ``spared``, first to last, that a narrow page has no room for."""
    kept = list(range(len(columns)))
    for title in spared:
        widths = [column_width(columns[index].title, [row[index] for row in rows]) for index in kept]
        if sum(widths) + GUTTER * (len(kept) - 1) <= page.width:
            break
        kept = [index for index in kept if columns[index].title != title]
    page.table(tuple(columns[index] for index in kept), [tuple(row[index] for index in kept) for row in rows])


def _name(one: DeviceReport) -> str:
    return f"{one.gpu} *" if one.own else one.gpu


def _rate(run: GpuRunCost) -> str:
    return _short(run.throughput.value) if run.throughput is not None else _UNKNOWN


def _largest(one: DeviceReport) -> str:
    found = one.largest_batch
    if found.size is None:
        return _UNKNOWN if found.reason else _NONE
    about = "" if found.traced else "~"
    return f"{about}{found.size}{'+' if found.larger_untried else ''}"


def _there(one: DeviceReport) -> str:
    if one.fullest is None or one.fullest.throughput is None:
        return _UNKNOWN
    at = "" if one.fullest.batch_size == one.largest_batch.size else f" (at {one.fullest.batch_size})"
    return f"{_short(one.fullest.throughput.value)}{at}"


def _render_prices(report: DevicesReport, page: Page) -> None:
    page.title("Prices", "an hour of one GPU; all of them, with their sources: --json")
    rows = [
        (
            page.text(_name(one), "bold"),
            page.text(f"${one.prices[0].usd_per_gpu_hour:.2f}" if one.prices else _UNKNOWN),
            page.text(_price(one)),
        )
        for one in report.devices
    ]
    page.table((Column("GPU", "left"), Column("an hour"), Column("of", "left")), rows)


def _price(one: DeviceReport) -> str:
    if not one.prices:
        return "no price known; give yours in a file (docs/devices.md)"
    price = one.prices[0]
    place = " ".join(part for part in (price.provider, price.instance, price.region) if part)
    whole = f", {price.gpus} together ${price.usd_per_hour:g}" if price.gpus > 1 else ""
    said = "your own figure" if price.own else price.date
    return f"{place}{whole} ({said})"


def _bases(devices: Sequence[DeviceReport]) -> list[str]:
    """The basis of the times: one sentence for all GPUs that share it."""
    grouped: dict[str, list[str]] = {}
    for one in devices:
        # Each says the GPU's own name: without it they can be compared.
        grouped.setdefault(one.basis.replace(f"the {one.gpu}", "the GPU"), []).append(one.gpu)
    return [f"Times on {', '.join(names)}: {basis}." for basis, names in grouped.items()]


def _traced(report: DevicesReport) -> list[str]:
    asked = report.traced_for_each
    if not asked:
        return ["The script was traced once for all GPUs: they answer all its queries alike."]
    return [f"The script was traced again for GPUs that answer its queries differently: {', '.join(asked)}."]


def _time_unit(runs: Sequence[GpuRunCost]) -> tuple[str, float]:
    return _unit([run.time_s.value for run in runs], _TIMES)


def _energy_unit(runs: Sequence[GpuRunCost]) -> tuple[str, float]:
    return _unit([run.energy_kwh.value for run in runs], _ENERGIES)


def _mass_unit(runs: Sequence[GpuRunCost]) -> tuple[str, float]:
    return _unit([run.carbon_g.value for run in runs], _MASSES)


def _unit(values: Sequence[float], known: Sequence[tuple[str, float]]) -> tuple[str, float]:
    """The unit in which the middle one of some values is a number of one to three digits, and what turns into it."""
    middle = sorted(values)[len(values) // 2] if values else 0.0
    name, size = next((one for one in known if middle >= one[1]), known[-1])
    return name, 1.0 / size


def _range(interval: Interval) -> str:
    if interval.half_width <= 0:
        return _short(interval.value)
    return f"{_short(interval.value)} ({_short(interval.low)}–{_short(interval.high)})"


def _short(value: float) -> str:
    """Three digits that count, two of a small number; none after the point from a hundred on."""
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    if value >= 0.095 or value <= 0:
        return f"{value:.2f}"
    return f"{value:.{1 - floor(log10(value))}f}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
