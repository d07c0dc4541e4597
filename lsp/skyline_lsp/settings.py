"""The settings of each folder of a session. Settings of the client override those of the project's file."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from skyline.lazy_dataclass import dataclass
from skyline.settings.model import SECTION, Settings
from skyline.settings.pyproject import project_settings
from skyline.settings.source import Resolved, SettingsSource, from_editor, resolve

__all__ = ["SECTION", "Settings", "SettingsBook"]

_LOOK_EVERY_S = 1.0
"""Time for which a project's settings are cached. Every keystroke needs them, and the disk may be remote."""


@dataclass(frozen=True, slots=True)
class _KnownSettings:
    resolved: Resolved
    until_s: float


class SettingsBook:
    """Settings by file. Used on the event loop only.

    ``command_line`` holds the settings that the server was started with. The project file of a workspace that is
    not ``trusted`` is not read.
    """

    def __init__(self, command_line: SettingsSource | None = None) -> None:
        self.trusted = True
        self._command_line = command_line
        self._at_start: SettingsSource | None = None
        self._by_folder: dict[str, SettingsSource] = {}
        self._known: dict[str | None, _KnownSettings] = {}
        self._told: set[str] = set()

    def at_start(self, options: object) -> None:
        """Set the settings of the client's ``initialize`` request. Later settings of the client override them."""
        self._at_start = from_editor(options)
        self.forget()

    def from_client(self, values: Mapping[str, object]) -> None:
        """Set the client's configuration by workspace folder. The key "" holds the configuration of all folders."""
        self._by_folder = {folder: from_editor(value) for folder, value in values.items()}
        self.forget()

    def at(self, path: str | None) -> Settings:
        """The effective settings of a file. ``path`` None: the settings that apply to all files."""
        return self.resolved(path).settings

    def resolved(self, path: str | None) -> Resolved:
        """The effective settings of a file with the origin of each."""
        folder = os.path.dirname(path) if path else None
        known = self._known.get(folder)
        now = time.monotonic()
        if known is None or now > known.until_s:
            known = self._known[folder] = _KnownSettings(resolve(self._sources(folder)), now + _LOOK_EVERY_S)
        return known.resolved

    def forget(self) -> None:
        """Drop the cached settings, so that the next call reads them again."""
        self._known.clear()

    def news(self, path: str | None) -> tuple[str, ...]:
        """The problems in the settings of a file that were not reported before."""
        news = tuple(one for one in self.resolved(path).problems if one not in self._told)
        self._told.update(news)
        return news

    def _sources(self, folder: str | None) -> list[SettingsSource | None]:
        around = [known for known in self._by_folder if known and folder and _within(folder, known)]
        nearest = max(around, key=len, default="")
        project = project_settings(Path(folder)) if folder and self.trusted else None
        return [
            self._command_line,
            self._by_folder.get(nearest),
            self._by_folder.get("") if nearest else None,
            self._at_start,
            project,
        ]


def _within(folder: str, root: str) -> bool:
    return folder == root or folder.startswith(root.rstrip(os.sep) + os.sep)
