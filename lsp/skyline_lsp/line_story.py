"""All details of one line as a short Markdown table with its basis."""

from __future__ import annotations

from collections.abc import Iterator

from skyline import units
from skyline.lazy_dataclass import dataclass
from skyline.report import basis
from skyline.report.schema import LineReport, ProfileReport
from skyline.source.line_map import line_map
from skyline.source.text import SourceText
from skyline_lsp.line_detail import LineDetail
from skyline_lsp.state import Scripts

_ALL = 0.995
"""Share from which a line counts as entirely on the critical path. The row is then left out, as on a CPU."""


def story(cost: PlacedLineCost) -> str:
    """The Markdown of a hover or of a hint's tooltip: at most a dozen rows, without those that do not apply."""
    row, report, detail = cost.row, cost.report, cost.detail
    phases = (
        ("data", row.data_ms),
        ("forward", row.forward_ms),
        ("backward", row.backward_ms),
        ("optimizer", row.optimizer_ms),
        ("other", row.other_ms),
    )
    scale = units.time_scale((row.self_ms,))
    table = [(name, scale.text(value)) for name, value in phases if value > 0]
    if row.calls:
        table.append(("calls", units.format_count(row.calls)))
    if detail.kernels:
        kernels = f"{units.format_count(detail.kernels)}, {units.format_ms(row.gpu_ms)} on the GPU"
        table.append(("kernels and copies", kernels))
    if detail.operators:
        table.append(("operators", ", ".join(f"`{name}`" for name in detail.operators)))
    if row.activation_bytes or row.peak_bytes:
        table.append(("memory", _memory(row)))
    if row.module:
        table.append(("module", f"`{row.module}`"))
    if detail.bound:
        table.append(("bound by", detail.bound))
    if detail.critical_share < _ALL:
        share = units.format_share(detail.critical_share)
        table.append(("critical path", f"{share} of the line's work"))
    whole = units.format_ms_interval(report.iteration_ms)
    head = f"**{scale.text(row.self_ms)}** per iteration · {units.format_share(row.share)} of {whole}"
    rows = "\n".join(f"| {name} | {value} |" for name, value in table)
    steps = f"{len(report.steps)} step{'' if len(report.steps) == 1 else 's'}"
    source = f"{report.mode} {steps} on {basis.device_name(report)}, {basis.when(report.created)}"
    if report.prediction is not None:
        source = "; ".join((*basis.basis_parts(report), f"times rest on {report.prediction.basis}"))
    if report.iteration is not None:
        source += f"; an iteration is {report.iteration.meaning}"
    note = "\n\n~ the code changed since: profile again for current numbers" if cost.stale else ""
    return f"{head}\n\n| Skyline | |\n|:--|--:|\n{rows}\n\n*{source}*{note}"


def _memory(row: LineReport) -> str:
    words = f"{units.format_bytes(row.activation_bytes)} kept for the backward pass"
    if row.peak_bytes:
        at_peak = f"{units.format_bytes(row.peak_bytes)} at the peak"
        return f"{words}, {at_peak}" if row.activation_bytes else at_peak
    return words


_NOTHING = LineDetail()


@dataclass(frozen=True, slots=True)
class PlacedLineCost:
    """A row of a profile with its line in the current text, counted from 1."""

    line: int
    row: LineReport
    report: ProfileReport
    detail: LineDetail
    stale: bool


def line_costs(scripts: Scripts, path: str, text: SourceText) -> Iterator[PlacedLineCost]:
    """The costs of a file's lines, from the script with the latest profile that includes the file."""
    state = scripts.covering(path)
    if state is None or state.prepared is None:
        return
    lines = line_map(state.prepared.sources[path].text, text.text)
    for number, row in state.prepared.lines.get(path, {}).items():
        line = lines(number)
        if line is not None:
            detail = state.prepared.details.get((path, number), _NOTHING)
            yield PlacedLineCost(line, row, state.prepared.report, detail, state.stale)
