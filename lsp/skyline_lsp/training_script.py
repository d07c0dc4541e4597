"""Whether a source looks like it trains something."""

from __future__ import annotations

from functools import lru_cache

from skyline.errors import SkylineError
from skyline.source.text import SourceText
from skyline.source.training_loop import find


@lru_cache(maxsize=64)
def training_loop(text: SourceText) -> int | None:
    """The line of the loop that drives the training, found without running anything; None: there is none."""
    try:
        header = find(text)
    except SkylineError:
        # It does not parse at the moment, as is usual while somebody types.
        return None
    return header.line if header else None
