"""The search behind the calibrations: seeded random steps of one constant each, kept if they reduce the loss."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

Place = tuple[object, ...]
"""The keys that lead to a constant in nested dictionaries. Several keys in the last place get the same value."""


def search(
    values: object,
    free: Sequence[Place],
    limits: Mapping[str, tuple[float, float]],
    steps: int,
    chooser: random.Random,
    loss: Callable[[object], float],
) -> float:
    """Change ``values`` in place to the smallest loss found in ``steps`` steps. Returns that loss.

    Steps are factors, large ones first. ``limits`` are found by the last name in the place of a constant. They keep
    each constant in the range in which it has its meaning.
    """
    lowest = loss(values)
    for step in range(steps):
        place = free[step % len(free)] if step < 2 * len(free) else chooser.choice(free)
        size = 0.4 * 0.1 ** (step / steps)
        low, high = limits[_limit_of(place, limits)]
        before = _get(values, place)
        moved = before * math.exp(chooser.gauss(0, size)) + (0.01 if before == 0 else 0.0)
        _set(values, place, min(high, max(low, moved)))
        found = loss(values)
        if found < lowest:
            lowest = found
        else:
            _set(values, place, before)
    return lowest


def _limit_of(place: Place, limits: Mapping[str, tuple[float, float]]) -> str:
    joined = ".".join(str(part) for part in place)
    return joined if joined in limits else next(str(part) for part in reversed(place) if str(part) in limits)


def _get(values: object, place: Place) -> float:
    for part in (*place[:-1], _keys(place[-1])[0]):
        values = values[part]  # type: ignore[index]
    return float(values)  # type: ignore[arg-type]


def _set(values: object, place: Place, value: float) -> None:
    for part in place[:-1]:
        values = values[part]  # type: ignore[index]
    for key in _keys(place[-1]):
        values[key] = value  # type: ignore[index]


def _keys(last: object) -> tuple[object, ...]:
    return last if isinstance(last, tuple) else (last,)
