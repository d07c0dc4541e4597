"""Formatting of counts."""

from __future__ import annotations


def how_often(count: float) -> str:
    """``once``, ``3 times``, ``2.5 times``."""
    return "once" if count == 1 else f"{count:.3g} times"


def plural(count: int, noun: str) -> str:
    """``1 worker``, ``3 workers``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
