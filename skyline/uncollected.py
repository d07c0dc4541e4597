"""Suspends garbage collection for work that allocates many lasting objects, which it would scan repeatedly."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uncollected(*, last: bool = False) -> Generator[None, None, None]:
    """Run the block, or a decorated function, without the collector of reference cycles.

    ``last`` states that the process ends soon. The objects of the block then count as old.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            if last:
                _keep()
            gc.enable()


def _keep() -> None:
    """Count all existing objects as old. Otherwise, the first collection of young objects would scan all of them."""
    if gc.get_freeze_count():
        return  # They were frozen before a fork and remain so.
    gc.freeze()
    gc.unfreeze()
