"""A profile as one HTML file that needs nothing else: no network, no script, readable in ten years."""

from __future__ import annotations

from skyline.report.html.page import render, render_answers

__all__ = ["render", "render_answers"]
