"""The line that says what profiling kept away and what it let through."""

from __future__ import annotations

from skyline.report.kept_away import kept_away, let_through, protected_by
from skyline.report.schema import ProfileReport
from skyline.report.text.page import Page


def render_effects(report: ProfileReport, page: Page) -> None:
    """At most three lines; nothing where the script left the world alone."""
    rows = (("kept away", kept_away(report.side_effects)), ("let through", let_through(report.side_effects)))
    rows = [(title, text) for title, text in rows if text]
    if rows and report.protection is not None:
        rows.append(("protection", protected_by(report.protection)))
    if rows:
        page.blank()
    for title, text in rows:
        page.paragraph(f"{title}: {text}", style="dim")
