"""Batch sizes that people use: where a pointer on a bar comes to rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_SINGLY_UP_TO = 8
_STEPS = (4, 5, 6, 7)
"""Four steps to each doubling: 8, 10, 12, 14, 16, 20, 24, 28, 32, ..."""


def usual_sizes(up_to: int) -> Iterator[int]:
    """All of them, rising: each up to 8, then four to each doubling."""
    yield from range(1, min(_SINGLY_UP_TO, up_to + 1))
    doubled = _SINGLY_UP_TO // _STEPS[0]
    while doubled * _STEPS[0] <= up_to:
        yield from (step * doubled for step in _STEPS if step * doubled <= up_to)
        doubled *= 2


def nearest_usual(batch_size: int, smallest: int, largest: int, also: Iterable[int] = ()) -> int:
    """The one between two sizes that is nearest, the smaller of two as near; ``also`` are as good as usual."""
    inside = {size for size in (*usual_sizes(largest), *also) if smallest <= size <= largest}
    return min(inside, key=lambda size: (abs(size - batch_size), size), default=batch_size)
