"""Measures one script after another: scripts that run unchanged, and public ones in the environments they need."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from kept_rows import Deadline
from whatifs import WhatIfScript, long_examples, public

_R = TypeVar("_R")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the scripts, their interpreter and their folders."""
    parser.add_argument("scripts", nargs="*", metavar='"SCRIPT [ARGUMENTS]"')
    parser.add_argument("--interpreter", help="Python that runs the scripts (default: this one)")
    parser.add_argument("--corpus", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir(), "skyline-corpus"))
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones")
    parser.add_argument("--folder", type=Path, help="where the scripts run (default: a new folder)")
    parser.add_argument("--rows", type=Path, help="file of finished rows, from which a later run continues")
    parser.set_defaults(only=[], together=False)


def is_one_of_the_corpus(options: argparse.Namespace) -> bool:
    """True if this process was started for a single public script, in the environment of that script."""
    return options.folder is not None and options.rows is not None and len(options.scripts) == 1


def write_own(own: Callable[[WhatIfScript], list[_R]], options: argparse.Namespace) -> None:
    """Measure that script, and pass its rows to the process that started this one."""
    options.rows.write_bytes(
        msgspec.json.encode(own(WhatIfScript.parse(options.scripts[0], options.interpreter)))
    )


def rows_of_all(
    own: Callable[[WhatIfScript], list[_R]],
    options: argparse.Namespace,
    *,
    program: str,
    kind: type[_R],
    deadline: Deadline | None = None,
) -> list[_R]:
    """The rows of all scripts, by default of the examples. Scripts in ``--rows`` are not measured again."""
    kept: dict[str, list[_R]] = {}
    if options.rows is not None and options.rows.exists():
        kept = msgspec.json.decode(options.rows.read_bytes(), type=dict[str, list[kind]])
    with tempfile.TemporaryDirectory() as copies:
        for name, job in _jobs(own, options, Path(copies, "examples"), program, kind):
            if name in kept or (deadline is not None and deadline.passed):
                continue
            kept[name] = job()
            if options.rows is not None:
                options.rows.write_bytes(msgspec.json.encode(kept))
    return [one for found in kept.values() for one in found]


def _jobs(
    own: Callable[[WhatIfScript], list[_R]],
    options: argparse.Namespace,
    copies: Path,
    program: str,
    kind: type[_R],
) -> Iterator[tuple[str, Callable[[], list[_R]]]]:
    for one in options.scripts or long_examples(copies):
        name = one if options.scripts else Path(one).name
        yield name, partial(own, WhatIfScript.parse(one, options.interpreter))
    for name in options.corpus:
        yield name, partial(public, name, options, program=program, kind=kind)
