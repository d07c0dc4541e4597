"""The user's preferences for the terminal UI: theme, keys and initial mode."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from skyline.bounded_read import LARGEST_TEXT_BYTES, read_bounded
from skyline.lazy_dataclass import dataclass
from skyline.toml import tomllib


@dataclass(frozen=True, slots=True)
class Preferences:
    """``keys`` maps ids of bindings to Textual's key names, several separated by commas."""

    theme: str = ""
    live: bool | None = None
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    problem: str = ""
    """The reason why the file is unreadable; empty if it is readable or missing."""

    def complaints(self, themes: Collection[str], bindings: Collection[str]) -> list[str]:
        """Messages about unusable preferences."""
        found = [self.problem] if self.problem else []
        if self.theme and self.theme not in themes:
            found.append(f"There is no theme {self.theme!r}. Known: {', '.join(sorted(themes))}.")
        unknown = [name for name in self.keys if name not in bindings and "." not in name]
        if unknown:
            known = ", ".join(sorted(name for name in bindings if name))
            found.append(f"No key is called {', '.join(unknown)}. Known: {known}.")
        return found


def preferences_file() -> Path:
    """``skyline/tui.toml`` in the user's configuration folder."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "skyline" / "tui.toml"


def read_preferences(path: Path | None = None) -> Preferences:
    """The preferences in the file; defaults without a file, and a problem message for an invalid one."""
    path = path or preferences_file()
    try:
        data: dict[str, Any] = tomllib.loads(read_bounded(path, LARGEST_TEXT_BYTES).decode("utf-8"))
    except FileNotFoundError:
        return Preferences()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return Preferences(problem=f"{path} cannot be read: {error}")
    theme, live, keys = data.get("theme", ""), data.get("live"), data.get("keys", {})
    wrong = [
        name
        for name, bad in (
            ("theme", not isinstance(theme, str)),
            ("live", live is not None and not isinstance(live, bool)),
            (
                "keys",
                not isinstance(keys, dict) or not all(isinstance(value, str) for value in keys.values()),
            ),
        )
        if bad
    ]
    if wrong:
        return Preferences(problem=f"{path}: invalid value of {', '.join(wrong)}")
    return Preferences(theme, live, dict(keys))
