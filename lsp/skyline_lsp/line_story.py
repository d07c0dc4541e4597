"""All that is known about one line, as a short Markdown table with its basis."""

from __future__ import annotations

from skyline import units
from skyline.report import basis
from skyline_lsp.line_cost import LineCost


def story(cost: LineCost) -> str:
    """The Markdown that a hover or a hint's tooltip shows; phases that take no time are left out."""
    row, report = cost.row, cost.report
    phases = (
        ("data", row.data_ms),
        ("forward", row.forward_ms),
        ("backward", row.backward_ms),
        ("optimizer", row.optimizer_ms),
        ("other", row.other_ms),
    )
    scale = units.time_scale((row.self_ms,))
    table = [(name, scale.text(value)) for name, value in phases if value > 0]
    if row.activation_bytes:
        table.append(("activation memory", units.format_bytes(row.activation_bytes)))
    if row.calls:
        table.append(("calls", units.format_count(row.calls)))
    if row.module:
        table.append(("module", f"`{row.module}`"))
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
