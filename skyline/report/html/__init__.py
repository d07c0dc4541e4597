"""A profile as one self-contained HTML file: no network, no script, readable in ten years."""

from __future__ import annotations

from skyline.report.html.page import PageNames, render, render_answers, render_report

__all__ = ["PageNames", "render", "render_answers", "render_report"]
