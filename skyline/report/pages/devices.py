"""A script on several GPUs: the best GPU, an iteration on each, the cost of an epoch, prices, and the basis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skyline import units
from skyline.analysis.gpu_costs import GpuRunCost
from skyline.memory.peak import Fit
from skyline.report.basis import command_line, when
from skyline.report.device_rows import DeviceReport, DevicesReport
from skyline.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Paragraph,
    Row,
    Section,
    TextTable,
    Title,
    document,
    paragraphs,
    row,
    said,
)
from skyline.report.short_figures import ENERGIES, MASSES, TIMES, fitting_unit, short, short_range

_FITS = {Fit.FITS.value: "yes", Fit.UNSURE.value: "maybe", Fit.TOO_LARGE.value: "no"}
_UNKNOWN = "-"
_NONE = "none"


def devices_page(report: DevicesReport) -> Document:
    """The fastest and the cheapest GPU, then an iteration on each, an epoch, prices, and the basis of the figures."""
    name = f"{command_line(report)} on {units.plural(len(report.devices), 'GPU')}"
    basis = (*_bases(report.devices), _traced(report), *report.assumptions, *report.notes)
    return document(
        Section((Title(name, f"predicted {when(report.created)}, nothing was run on a GPU", plain=True),)),
        Section((Paragraph(report.answer),)),
        _iterations(report),
        _span(report),
        _prices(report),
        paragraphs("Basis of these figures", basis),
    )


def _iterations(report: DevicesReport) -> Section:
    times = units.time_scale([one.as_is.iteration_ms.value for one in report.devices])
    batch = f"batch {report.batch_size}" if report.batch_size is not None else "unchanged"
    columns = (
        Column("GPU", left=True),
        Column("time"),
        Column("samples/s"),
        Column("GPU busy", spared=2),
        Column("peak memory"),
        Column("fits"),
        Column("largest batch"),
        Column("samples/s there", spared=1),
    )
    rows = [
        row(
            Cell(_name(one), "bold"),
            times.number_with_spread(one.as_is.iteration_ms),
            _rate(one.as_is),
            units.format_share(one.as_is.busy_share),
            units.format_bytes_of(one.as_is.peak_bytes, one.memory_bytes),
            Cell(_FITS[one.fits], "red" if one.fits != Fit.FITS.value else "green"),
            _largest(one),
            _there(one),
        )
        for one in report.devices
    ]
    found = [_largest(one) for one in report.devices]
    marks = ("~ extrapolated, not traced", "+ larger ones were not tried")
    used = "; ".join(mark for mark in marks if any(mark[0] in text for text in found))
    reasons = dict.fromkeys(one.largest_batch.reason for one in report.devices if one.largest_batch.reason)
    blocks = (
        TextTable(columns, tuple(rows)),
        *said(used),
        *said(*(f"No largest batch: {reason}." for reason in reasons), tone=""),
    )
    return Section(blocks, "An iteration", f"{batch}; times in {times.unit}")


def _span(report: DevicesReport) -> Section:
    span = report.span
    runs = [(one, _shown(one)) for one in report.devices]
    known = [run for _, shown in runs for run in shown]
    seconds, seconds_factor = fitting_unit((run.time_s.value for run in known), TIMES)
    energy, energy_factor = fitting_unit((run.energy_kwh.value for run in known), ENERGIES)
    mass, mass_factor = fitting_unit((run.carbon_g.value for run in known), MASSES)
    columns = (
        Column("GPU", left=True),
        Column("batch"),
        Column(f"time ({seconds})"),
        Column("cost ($)"),
        Column(f"energy ({energy})"),
        Column(f"CO2 ({mass})", spared=1),
    )

    def rows() -> Iterator[Row]:
        for one, shown in runs:
            for number, run in enumerate(shown):
                yield row(
                    Cell("" if number else _name(one), "bold"),
                    str(run.batch_size) if run.batch_size is not None else _UNKNOWN,
                    short_range(run.time_s.scaled(seconds_factor)),
                    short_range(run.cost_usd) if run.cost_usd is not None else _UNKNOWN,
                    short_range(run.energy_kwh.scaled(energy_factor)),
                    short_range(run.carbon_g.scaled(mass_factor)),
                )
            if not shown:
                yield row(Cell(_name(one), "bold"), *[_UNKNOWN] * 5)

    blocks: list[Block] = [TextTable(columns, tuple(rows()))] if known else []
    without = [one for one, shown in runs if not shown]
    for words, fits in (("Not even a batch of one", True), ("No batch size that was traced", False)):
        names = ", ".join(one.gpu for one in without if (_largest(one) == _NONE) is fits)
        if names:
            blocks.append(Paragraph(f"{words} fits on {names}.", "red"))
    samples = f"{span.samples:,.0f} samples" if span.samples else f"{span.iterations:,.0f} iterations"
    if span.epoch:
        return Section(tuple(blocks), "An epoch", samples)
    return Section(tuple(blocks), f"{span.iterations:,.0f} iterations", samples if span.samples else "")


def _shown(one: DeviceReport) -> list[GpuRunCost]:
    """The unchanged script unless it is too large, and the largest traced batch that fits."""
    as_is = [] if one.fits == Fit.TOO_LARGE.value else [one.as_is]
    fullest = [] if one.fullest is None or one.fullest == one.as_is else [one.fullest]
    return [*as_is, *fullest]


def _prices(report: DevicesReport) -> Section:
    rows = tuple(
        row(
            Cell(_name(one), "bold"),
            f"${one.prices[0].usd_per_gpu_hour:.2f}" if one.prices else _UNKNOWN,
            _price(one),
        )
        for one in report.devices
    )
    columns = (Column("GPU", left=True), Column("an hour"), Column("of", left=True))
    aside = "an hour of one GPU; all of them, with their sources: --json"
    return Section((TextTable(columns, rows),), "Prices", aside)


def _price(one: DeviceReport) -> str:
    if not one.prices:
        return "no price known; give yours in a file (docs/devices.md)"
    price = one.prices[0]
    place = " ".join(part for part in (price.provider, price.instance, price.region) if part)
    whole = f", {price.gpus} together ${price.usd_per_hour:g}" if price.gpus > 1 else ""
    return f"{place}{whole} ({'your own figure' if price.own else price.date})"


def _name(one: DeviceReport) -> str:
    return f"{one.gpu} *" if one.own else one.gpu


def _rate(run: GpuRunCost) -> str:
    return short(run.throughput.value) if run.throughput is not None else _UNKNOWN


def _largest(one: DeviceReport) -> str:
    found = one.largest_batch
    if found.size is None:
        return _UNKNOWN if found.reason else _NONE
    return f"{'' if found.traced else '~'}{found.size}{'+' if found.larger_untried else ''}"


def _there(one: DeviceReport) -> str:
    if one.fullest is None or one.fullest.throughput is None:
        return _UNKNOWN
    at = "" if one.fullest.batch_size == one.largest_batch.size else f" (at {one.fullest.batch_size})"
    return f"{short(one.fullest.throughput.value)}{at}"


def _bases(devices: Sequence[DeviceReport]) -> list[str]:
    """The basis of the times, with one sentence for all GPUs that share it."""
    grouped: dict[str, list[str]] = {}
    for one in devices:
        # Each basis names its own GPU; without the name they can be compared.
        grouped.setdefault(one.basis.replace(f"the {one.gpu}", "the GPU"), []).append(one.gpu)
    return [f"Times on {', '.join(names)}: {basis}." for basis, names in grouped.items()]


def _traced(report: DevicesReport) -> str:
    asked = report.traced_for_each
    if not asked:
        return "The script was traced once for all GPUs: its device queries give the same results on each."
    return f"The script was traced again for GPUs on which its device queries give other results: {', '.join(asked)}."
