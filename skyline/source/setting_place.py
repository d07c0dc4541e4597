"""The place in a settings file of a value that a script reads at run time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True, slots=True)
class SettingPlace:
    """One value in a file: ``line`` from 1, ``key`` with its sections (``train.batch_size``), ``text`` as written."""

    file: str
    line: int
    key: str
    text: str

    @property
    def words(self) -> str:
        """The place as text for the user: ``config.yaml, line 5 (`train.batch_size: 16`)``."""
        return f"{PurePath(self.file).name}, line {self.line} (`{self.key}: {self.text}`)"
