"""Reports for the terminal: what a person sees first, from 80 columns up, in colour or without."""

from __future__ import annotations

from skyline.report.text.diff import render_diff
from skyline.report.text.summary import Saved, render, render_whatifs

__all__ = ["Saved", "render", "render_diff", "render_whatifs"]
