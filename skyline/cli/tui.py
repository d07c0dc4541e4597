"""``skyline tui``: the terminal interface."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def make_parser() -> argparse.ArgumentParser:
    from skyline_tui import main

    return main.make_parser()


def run(arguments: Sequence[str]) -> int:
    """Run the command. Its options are those of the interface."""
    from skyline_tui.main import main

    return main(list(arguments))
