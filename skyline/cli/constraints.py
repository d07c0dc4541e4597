"""The constraints of a best combination, as options of a command."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skyline.cli.numbers import gigabytes
from skyline.errors import UsageError

if TYPE_CHECKING:
    from skyline.analysis.best import Constraints

_CLASSES = ("exact", "numerics", "convergence")


def add_constraint_options(command: argparse.ArgumentParser) -> None:
    """Add ``--best`` and what it takes."""
    group = command.add_argument_group("the best combination")
    group.add_argument(
        "--best", action="store_true", help="search for the combination that is fastest together"
    )
    group.add_argument(
        "--max-memory",
        type=gigabytes,
        metavar="GB",
        help="with at most this peak memory (default: that of the device)",
    )
    group.add_argument(
        "--semantics",
        choices=_CLASSES,
        help="exact: only what gives the same results; numerics: rounding may differ; convergence (default): "
        "training may take another course, as with another batch size",
    )
    group.add_argument(
        "--rewritable", action="store_true", help="only what Skyline can change in the code itself"
    )


def constraints_from(options: argparse.Namespace) -> Constraints | None:
    """The constraints that the options set; None without ``--best``.

    Raises:
        UsageError: options of ``--best`` are given without it, or names with it.
    """
    given = [
        name
        for name, value in (
            ("--max-memory", options.max_memory),
            ("--semantics", options.semantics),
            ("--rewritable", options.rewritable),
        )
        if value
    ]
    if not options.best:
        if given:
            raise UsageError(f"{given[0]} is for --best", hint=f"Write: --best {given[0]} …")
        return None
    if options.names:
        raise UsageError(
            f"--best searches by itself: {options.names[0]} cannot be given with it",
            hint="Omit the names or --best.",
        )
    from skyline.analysis.best import Constraints
    from skyline.whatif.base import Semantics

    semantics = Semantics(options.semantics) if options.semantics else Semantics.CONVERGENCE
    return Constraints(options.max_memory, semantics, options.rewritable)
