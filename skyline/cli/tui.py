"""``skyline tui``: the terminal interface."""

from __future__ import annotations

from collections.abc import Sequence


def run(arguments: Sequence[str]) -> int:
    """Run the command; its own options are those of the interface."""
    from skyline_tui.main import main

    return main(list(arguments))
