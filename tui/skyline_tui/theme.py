"""Colours. Widgets refer to variables of the theme only, so that any theme works."""

from __future__ import annotations

from textual.theme import Theme

PHASE_COLOURS = {
    "phase-data": "#d79b3f",
    "phase-forward": "#3f9bd7",
    "phase-backward": "#7d6fd6",
    "phase-optimizer": "#3fb68b",
    "phase-communication": "#c0609f",
    "phase-other": "#8a8f98",
}

SKYLINE = Theme(
    name="skyline",
    primary="#4aa8d8",
    secondary="#7d8fd6",
    accent="#e0a458",
    warning="#e0a458",
    error="#e06c75",
    success="#5fbf8f",
    foreground="#d8dee4",
    background="#12161c",
    surface="#181d25",
    panel="#212832",
    dark=True,
    variables={"footer-key-foreground": "#4aa8d8", "block-cursor-text-style": "bold"},
)
