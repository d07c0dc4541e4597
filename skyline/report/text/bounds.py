"""The critical path of an iteration, by cause."""

from __future__ import annotations

from dataclasses import fields

from rich.text import Text

from skyline import units
from skyline.report.text.page import Column, Page
from skyline.simulate.critical_path import CriticalPath

_CAUSES = {
    "cpu": "host",
    "gpu_compute": "GPU, computing",
    "gpu_communication": "GPU, communicating",
    "launch": "launches",
    "data": "data loading",
    "idle": "nothing recorded",
}
_BAR = 24
_LEAST = 5e-4
"""Share below which nothing is shown."""


def render_bounds(path: CriticalPath, page: Page) -> None:
    """One row per cause, the largest first."""
    page.title("Bound by", "shares of the critical path")
    shares = {field.name: float(getattr(path, field.name)) for field in fields(path)}
    rows: list[tuple[Text, ...]] = []
    for name in sorted(shares, key=lambda name: -shares[name]):
        if shares[name] < _LEAST:
            continue
        rows.append(
            (
                page.text(_CAUSES[name]),
                page.text(units.format_share(shares[name])),
                page.text(page.glyphs.bar(shares[name], _BAR), "red" if shares[name] >= 0.5 else ""),
            )
        )
    page.table((Column("", "left"), Column(""), Column("", "left")), rows)
