"""Work that allocates many objects that stay, which the garbage collector would scan again and again."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uncollected(*, last: bool = False) -> Generator[None, None, None]:
    """Run the block, or a decorated function, without the collector of reference cycles.

    ``last`` says that the process ends soon: the objects of the block count as old.
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
    """Count what is there as old: the first collection of young objects would go through all of it."""
    if gc.get_freeze_count():
        return  # they were frozen before a fork, and stay so
    gc.freeze()
    gc.unfreeze()
