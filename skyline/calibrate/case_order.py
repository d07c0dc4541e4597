"""The order of the measured cases: any beginning of the list covers all sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import exp, log
from typing import TypeVar

from skyline.calibrate.case import Case
from skyline.lazy_dataclass import dataclass

Span = tuple[float, float]
_T = TypeVar("_T")
_ODD_EVERY = 4
"""Share of odd sizes: libraries are slower for them, and models use them rarely."""


@dataclass(frozen=True, slots=True)
class Design:
    """The sampling of the sizes of one operator: a span for each, and the map from numbers in 0 to 1 to a case."""

    op: str
    spans: tuple[Span, ...]
    sizes: Callable[[tuple[int, ...]], dict[str, int] | None]
    share: int = 1
    """Number of cases drawn in a round."""
    formats: tuple[str, ...] = ()
    """The number formats of this operator, if it has its own."""


def ordered_cases(
    dtypes: tuple[str, ...], thread_counts: tuple[int, ...], designs: tuple[Design, ...]
) -> Iterator[Case]:
    """An endless sequence of cases, the first of each operator first. Secondary formats and thread counts alternate.

    Points are drawn by the additive recurrence of Roberts ("The Unreasonable Effectiveness of Quasirandom Sequences",
    2018): each fills the largest gap so far. Sizes are distributed by their logarithms.
    """
    streams = [(design, enumerate(_points(design))) for design in designs]
    while True:
        for design, points in streams:
            for turn, sizes in islice(points, design.share):
                # Most cases have the most common format and thread count of training.
                dtype = _in_turn(design.formats or dtypes, turn, 3)
                threads = _in_turn(thread_counts, turn, 5)
                yield Case(design.op, tuple(sorted(sizes.items())), dtype, threads)


def _in_turn(values: Sequence[_T], turn: int, every: int) -> _T:
    """The first value, except at every ``every``-th turn, which takes one of the others."""
    first, *others = values
    return others[turn // every % len(others)] if others and turn % every == every - 1 else first


def _points(design: Design) -> Iterator[dict[str, int]]:
    """An endless sequence of possible sizes of the operator."""
    dimensions = max(1, len(design.spans))
    root = _root(dimensions)
    steps = [float(root ** -(place + 1)) for place in range(dimensions)]
    number = 0
    while True:
        number += 1
        drawn = tuple(
            round(exp(log(low) + (0.5 + number * step) % 1.0 * (log(high) - log(low))))
            for (low, high), step in zip(design.spans, steps, strict=False)
        )
        found = design.sizes(drawn if number % _ODD_EVERY == 0 else tuple(map(_usual, drawn)))
        if found is not None:
            yield found


def _usual(size: int) -> int:
    """The nearest common size: four steps per power of two, from eight on."""
    if size < 8:
        return size
    step = max(4, 1 << (size.bit_length() - 3))
    return max(8, round(size / step) * step)


def _root(dimensions: int) -> float:
    """The positive root of x^(d+1) = x + 1, the golden ratio for one dimension."""
    value = 2.0
    for _ in range(40):
        value = (1 + value) ** (1 / (dimensions + 1))
    return value
