"""The characters a terminal can show, and plain substitutes where it cannot."""

from __future__ import annotations

import os
from dataclasses import dataclass

from rich.console import Console

_PLAIN = str.maketrans({"±": "+/-", "·": "-", "µ": "u", "…": "...", "→": "->", "×": "x", "≥": ">=", "–": "-"})


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of drawing characters. ``partial`` are eighths of a cell, thinnest first."""

    full: str
    partial: str
    sliver: str
    hollow: str
    mark: str
    bullet: str
    rule: str
    ellipsis: str
    plain: bool

    def text(self, text: str) -> str:
        """``text`` in characters this terminal has."""
        if not self.plain:
            return text
        return text.translate(_PLAIN).encode("ascii", "replace").decode("ascii")

    def bar(self, share: float, width: int) -> str:
        """A bar of ``share`` of ``width`` cells; anything above zero leaves at least a sliver."""
        eighths = round(max(0.0, min(1.0, share)) * width * 8)
        if not self.partial:
            cells = round(eighths / 8)
            return self.full * cells or (self.sliver if share > 0 else "")
        whole, rest = divmod(eighths, 8)
        bar = self.full * whole + (self.partial[rest - 1] if rest else "")
        return bar or (self.sliver if share > 0 else "")


UNICODE = Glyphs("█", "▏▎▍▌▋▊▉", "▏", "░", "◀", "•", "─", "…", plain=False)
ASCII = Glyphs("#", "", "|", "-", "<", "*", "-", "...", plain=True)


def glyphs_for(console: Console) -> Glyphs:
    """Plain characters for a dumb terminal or an output that is not encoded in Unicode."""
    plain = console.options.ascii_only or os.environ.get("TERM", "") in {"dumb", "unknown"}
    return ASCII if plain else UNICODE
