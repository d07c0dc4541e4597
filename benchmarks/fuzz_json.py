"""Wrong JSON: random values, and valid messages with one wrong part."""

from __future__ import annotations

import copy
import random
from typing import Any

NUMBERS = (0, -1, 1.5, 2**31, 2**63, -(2**40), 10**30, 1e308, float("nan"), float("inf"), 0.1)
WORDS = (
    "",
    "x",
    "file://[",
    "file:///a%00b",
    "untitled:1",
    "\ud800",
    "a" * 2000,
    "2.0",
    "null",
    "../..",
    "amp=bf16",
)


def value(chance: random.Random, depth: int = 3) -> Any:
    kind = chance.randrange(8 if depth else 5)
    if kind == 0:
        return chance.choice((None, True, False))
    if kind in (1, 2):
        return chance.choice(NUMBERS)
    if kind in (3, 4):
        return chance.choice(WORDS)
    if kind in (5, 6):
        return [value(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {
        chance.choice(("uri", "jsonrpc", "id", "method", *WORDS)): value(chance, depth - 1) for _ in range(3)
    }


def spoiled(chance: random.Random, message: Any) -> Any:
    """A copy with one part removed, repeated, or replaced by something else."""
    message = copy.deepcopy(message)
    places: list[tuple[Any, Any]] = []
    _walk(message, places)
    if not places:
        return value(chance)
    container, key = chance.choice(places)
    if chance.random() < 0.3:
        del container[key]
    elif isinstance(container, list) and chance.random() < 0.3:
        container.append(copy.deepcopy(container[key]))
    else:
        container[key] = value(chance)
    return message


def _walk(part: Any, places: list[tuple[Any, Any]]) -> None:
    keys = part.keys() if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
    for key in keys:
        places.append((part, key))
        _walk(part[key], places)
