"""The command of a benchmark that measures rows of one type in rounds, on one thread."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from machine import Machine, warn_when_busy
from result_file import RESULTS, write


def run(
    name: str,
    title: str,
    description: str | None,
    measured: Callable[[int], list[Any]],
    page: Callable[[list[Any]], str],
    *,
    rounds: int,
) -> int:
    """Measure, write the page ``name`` and print it. ``measured`` gets the number of rounds, by default ``rounds``."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    machine = Machine.here()
    warn_when_busy(machine)
    rows = measured(options.rounds)
    figures = [asdict(row) for row in rows]
    print(write(name, title, machine, page(rows), figures, results=options.results))
    return 0
