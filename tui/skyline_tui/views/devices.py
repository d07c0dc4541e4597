"""The page of the script on other GPUs: time, memory fit, cost."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from skyline import units
from skyline.memory.peak import Fit
from skyline.report.basis import command_line, when
from skyline.report.device_rows import DeviceReport, DevicesReport
from skyline.report.pages.devices import devices_page
from skyline_tui.figures import MUTED, flow
from skyline_tui.views.view import View, rendered
from skyline_tui.widgets.sort_table import SortTable, TableColumn

_FITS = {Fit.FITS.value: "yes", Fit.UNSURE.value: "maybe", Fit.TOO_LARGE.value: "! no"}
NOT_YET = (
    "No GPU yet. Press e to predict the script on common GPUs, which need not be present: nothing runs, and "
    "it takes about a "
    "minute."
)


class DevicesView(View):
    """A sortable table, with the page of ``skyline devices`` below it."""

    def __init__(self) -> None:
        super().__init__(id="view-devices", classes="view page")
        self.report: DevicesReport | None = None

    def parts(self) -> ComposeResult:
        yield Static(Content.styled(NOT_YET, MUTED), id="devices-title", classes="view-title")
        table: SortTable[DeviceReport] = SortTable(_shape(()), sorted_by=1, table_id="device-table")
        table.border_title = "GPUs (s or a click on a title sorts)"
        yield table
        with VerticalScroll(id="devices-page", classes="panel") as page:
            page.border_title = "Basis of these figures"
            yield Static(id="devices-text")

    def shown(self) -> None:
        self.query_one(SortTable).focus()

    def arrived(self, report: DevicesReport) -> None:
        """Show the comparison."""
        self.report = report
        table: SortTable[DeviceReport] = self.query_one(SortTable)
        table.fill(report.devices, _shape(report.devices))
        self._write()

    def fail(self, reason: str) -> None:
        self.query_one("#devices-title", Static).update(Content.styled(f"! {reason}", "$text-warning"))

    def resized(self) -> None:
        self._write()

    def _write(self) -> None:
        report = self.report
        if report is None:
            return
        batch = f"batch size {report.batch_size}" if report.batch_size is not None else "unchanged"
        span = report.span
        told = (
            f"costs of an epoch of {span.samples:,.0f} samples"
            if span.epoch and span.samples
            else (f"costs of {span.iterations:,.0f} iterations")
        )
        parts = [
            Content.styled(command_line(report), "bold"),
            Content(batch),
            Content(f"predicted {when(report.created)}, nothing was run on a GPU"),
            Content(told),
            Content.styled("e predicts again", MUTED),
        ]
        self.query_one("#devices-title", Static).update(flow(parts, max(self.size.width - 2, 20)))
        page = rendered(devices_page(report), self.size.width - 8)
        self.query_one("#devices-text", Static).update(page)


def _shape(devices: tuple[DeviceReport, ...]) -> list[TableColumn[DeviceReport]]:
    times = units.time_scale([one.as_is.iteration_ms.value for one in devices] or [1.0])
    return [
        TableColumn[DeviceReport](
            "GPU",
            lambda one: one.gpu + (" *" if one.own else ""),
            lambda one: one.gpu.lower(),
            left=True,
            largest_first=False,
        ),
        TableColumn[DeviceReport](
            "time",
            lambda one: f"{times.number_with_spread(one.as_is.iteration_ms)} {times.unit}",
            lambda one: one.as_is.iteration_ms.value,
            largest_first=False,
        ),
        TableColumn[DeviceReport](
            "samples/s",
            lambda one: (
                units.format_throughput(one.as_is.throughput.value) if one.as_is.throughput else "unknown"
            ),
            lambda one: one.as_is.throughput.value if one.as_is.throughput else None,
        ),
        TableColumn[DeviceReport](
            "peak memory",
            lambda one: units.format_bytes_of(one.as_is.peak_bytes, one.memory_bytes),
            lambda one: one.as_is.peak_bytes / one.memory_bytes,
        ),
        TableColumn[DeviceReport]("fits", lambda one: _FITS[one.fits], lambda one: _FITS[one.fits]),
        TableColumn[DeviceReport](
            "largest batch",
            lambda one: "unknown" if one.largest_batch.size is None else str(one.largest_batch.size),
            lambda one: one.largest_batch.size,
        ),
        TableColumn[DeviceReport](
            "cost",
            lambda one: f"${one.as_is.cost_usd.value:.3g}" if one.as_is.cost_usd else "no price",
            lambda one: one.as_is.cost_usd.value if one.as_is.cost_usd else None,
            largest_first=False,
        ),
        TableColumn[DeviceReport](
            "energy",
            lambda one: f"{one.as_is.energy_kwh.value:.3g} kWh",
            lambda one: one.as_is.energy_kwh.value,
            largest_first=False,
        ),
    ]
