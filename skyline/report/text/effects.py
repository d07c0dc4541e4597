"""The lines about side effects that profiling prevented and allowed."""

from __future__ import annotations

from skyline.report.effect_summary import allowed, prevented, protected_by
from skyline.report.schema import ProfileReport
from skyline.report.text.page import Page


def render_effects(report: ProfileReport, page: Page) -> None:
    """At most three lines; none where the script had no side effects."""
    rows = (("prevented", prevented(report.side_effects)), ("allowed", allowed(report.side_effects)))
    rows = [(title, text) for title, text in rows if text]
    if rows and report.protection is not None:
        rows.append(("protection", protected_by(report.protection)))
    if rows:
        page.blank()
    for title, text in rows:
        page.paragraph(f"{title}: {text}", style="dim")
