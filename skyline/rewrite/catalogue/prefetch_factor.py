"""Lets each of the training's loader workers prepare another number of batches ahead."""

from __future__ import annotations

from skyline.errors import RewriteRefused
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.sites.worker_argument import core_contention, value_beside, without_beside
from skyline.source.edit import TextEdit

NAME = "prefetch_factor"
ORDER = 60
"""Beside what ``num_workers`` writes."""


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """``prefetch_factor=N`` where the number of workers is given; None without workers where that is a name."""
    if not value.isdigit() or int(value) < 1:
        message = f"{value!r} is not a number of batches"
        raise RewriteRefused(message, hint="Give a whole number: prefetch_factor=4.")
    depth = str(int(value))
    snippet = f"DataLoader(..., num_workers=N, prefetch_factor={depth})"
    return core_contention(context, NAME, depth, f"{depth} if {{}} > 0 else None", snippet)


def present(context: RewriteContext) -> str | None:
    """What the training's loader is given."""
    return value_beside(context, NAME)


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """The training's loader without the argument."""
    return without_beside(context, NAME, "None")
