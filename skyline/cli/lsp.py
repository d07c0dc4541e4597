"""``skyline lsp``: the language server, on stdio or a loopback port."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def make_parser() -> argparse.ArgumentParser:
    from skyline_lsp import main

    return main.make_parser()


def run(arguments: Sequence[str]) -> int:
    """Run the command. Its options are those of the server."""
    from skyline_lsp.main import main

    return main(list(arguments))
