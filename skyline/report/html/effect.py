"""Rows of the table of side effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skyline.report.place import place
from skyline.trace.side_effect import SideEffect

_FILES = ("file", "folder", "removal", "download")


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One effect as text; ``place`` is empty where no line of the person's did it."""

    kind: str
    target: str
    outcome: str
    count: str
    place: str


def effect_rows(effects: Sequence[SideEffect], base: Path) -> list[EffectRow]:
    """In the order in which they happened."""
    return [
        EffectRow(
            effect.kind,
            _target(effect, base),
            effect.outcome,
            str(effect.count) if effect.count > 1 else "",
            place(effect.line.file, effect.line.line, base) if effect.line is not None else "",
        )
        for effect in effects
    ]


def _target(effect: SideEffect, base: Path) -> str:
    path = Path(effect.target)
    if effect.kind in _FILES and path.is_relative_to(base):
        return str(path.relative_to(base))
    return effect.target
