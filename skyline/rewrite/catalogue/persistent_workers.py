"""Keeps the training's loader workers from one epoch to the next."""

from __future__ import annotations

from skyline.rewrite.context import RewriteContext
from skyline.rewrite.sites.worker_argument import core_contention, value_beside, without_beside
from skyline.source.edit import TextEdit

NAME = "persistent_workers"
ORDER = 60
"""Beside what ``num_workers`` writes."""
_SNIPPET = "DataLoader(..., num_workers=N, persistent_workers=True)"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """``persistent_workers=True`` where the number of workers is given; ``workers > 0`` where that is a name."""
    return core_contention(context, NAME, "True", "{} > 0", _SNIPPET)


def present(context: RewriteContext) -> str | None:
    """What the training's loader is given."""
    return value_beside(context, NAME)


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """The training's loader without the argument."""
    return without_beside(context, NAME, "False")
