"""Rows of older results pages: predicted changes with their ranges, and the measured values."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

from skyline.interval import Interval

_HELD_OUT = Path(__file__).with_name("held_out.toml")
_SPREADS = ((0.043, "2026-11-28T17:00"), (0.030, "2026-11-26T02:00"), (0.0, ""))
"""The difference between processes that the ranges of pages include, each since a date."""
_STEADY = 0.05
"""Largest deviation of a null from 1. A change with a larger one does not count as measured."""


@dataclass(frozen=True, slots=True)
class Change:
    """A predicted change with its stated range, and the measured ratio, both relative to the unchanged script."""

    page: str
    script: str
    names: tuple[str, ...]
    predicted: Interval
    measured: float
    spread: float
    """The difference between processes, as a share, that the range already includes."""
    provenance: str = ""
    """The basis of the prediction, if the page has it."""

    def ranged(self, spread: float) -> Interval:
        """The range with this difference between processes, combined as in the product."""
        said = self.predicted
        more = spread**2 - self.spread**2

        def joined(side: float) -> float:
            return math.sqrt(max(0.0, side**2 + more * said.value**2))

        return Interval(
            said.value,
            said.value - joined(said.value - said.low),
            said.value + joined(said.high - said.value),
        )


def changes(results: Path, pages: Sequence[str]) -> list[Change]:
    """All changes with a steady null on some pages."""
    found: list[Change] = []
    for page in pages:
        machine, figures = content(results, page)
        spread = next(share for share, since in _SPREADS if machine["when"] >= since)
        for script, row in with_null(figures):
            said = row.get("said")
            if said and abs(null_of(row) - 1) <= _STEADY:
                ratio = Interval(said["ratio"], said["low"], said["high"])
                names = tuple(said["names"])
                measured, basis = row["measured"]["value"], said.get("provenance", "")
                found.append(Change(page, script, names, ratio, measured, spread, basis))
    return found


def held_out() -> set[str]:
    """Scripts that set no constant, as named on pages."""
    scripts = tomllib.loads(_HELD_OUT.read_text(encoding="utf-8"))["script"]
    return {"/".join(Path(one["path"]).parts[-2:]) for one in scripts}


def content(results: Path, page: str) -> tuple[dict[str, Any], object]:
    """The machine and the figures of a page."""
    read = json.loads((results / f"{page}.json").read_text(encoding="utf-8"))
    return read["machine"], read["figures"]


def null_of(row: dict[str, Any]) -> float:
    """The time of the second process of the unchanged script over that of the first."""
    null: Any = row["null"]
    return float(null["value"] if isinstance(null, dict) else null)


def with_null(figures: object, script: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All rows with a null, at any depth, each with its script."""
    if isinstance(figures, dict):
        own: dict[str, Any] = figures
        script = own.get("script", script)
        if own.get("null") is not None:
            yield script, own
        for value in own.values():
            yield from with_null(value, script)
    elif isinstance(figures, list):
        for value in figures:
            yield from with_null(value, script)
