"""One value of a settings file."""

from __future__ import annotations

import re
from dataclasses import dataclass

_INTEGER = re.compile(r"[+]?(?:0[xX][0-9a-fA-F_]+|\d[\d_]*)")


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """One value: ``line`` from 1, ``column`` in characters from 0, ``path`` the sequence of its keys."""

    line: int
    column: int
    path: tuple[str, ...]
    text: str

    @property
    def key(self) -> str:
        """The keys joined by dots."""
        return ".".join(self.path)

    @property
    def bare(self) -> str:
        """The value without quotation marks."""
        return self.text.strip("\"'").strip()

    @property
    def whole_number(self) -> int | None:
        """The value if it is a whole number, quoted or not."""
        bare = self.bare
        if not _INTEGER.fullmatch(bare):
            return None
        return int(bare.replace("_", ""), 0 if bare[:2].lower() == "0x" else 10)


def unquoted(text: str) -> str:
    """A key without its quotation marks."""
    return text[1:-1] if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0] else text.strip()
