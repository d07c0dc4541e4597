"""The ``[tool.skyline]`` table of a script's ``pyproject.toml``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from skyline.bounded_read import LARGEST_TEXT_BYTES, read_bounded
from skyline.errors import UsageError
from skyline.settings.budget import Budget
from skyline.settings.source import SettingsSource, from_table

if TYPE_CHECKING:
    from skyline.settings.watch import WatchSettings

NAME = "pyproject.toml"
_PATHS = ("interpreter", "profile.entryPoint")
"""Settings that name a file; relative paths start from the folder of the settings file."""


def project_settings(folder: Path) -> SettingsSource | None:
    """The settings of the nearest ``pyproject.toml`` with such a table, from ``folder`` upwards; None without one.

    An unreadable or invalid file is reported as a problem and ends the search. The folder may come from someone else,
    so settings that could start programs automatically, or give them network access, are limited:
    ``on_save = "always"`` means ``afterFirst``, and ``network`` stays ``loopback``.
    """
    try:
        found = tool_table(folder)
    except UsageError as error:
        return SettingsSource("pyproject", {}, (error.message,), error.file or "")
    if found is None:
        return None
    table, path = found
    source = from_table(table, str(path))
    return SettingsSource(
        source.origin, _from_a_project(source.values, path.parent), source.problems, source.place
    )


def tool_table(folder: Path) -> tuple[Mapping[str, object], Path] | None:
    """The table ``[tool.skyline]`` of the nearest ``pyproject.toml`` with one, and the file; from ``folder`` upwards.

    Raises:
        UsageError: the nearest file that may have one cannot be read or parsed; ``file`` names it.
    """
    for directory in (folder, *folder.parents):
        path = directory / NAME
        try:
            data = read_bounded(path, LARGEST_TEXT_BYTES)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}", file=str(path)) from error
        # Most of these files do not mention Skyline: skip the parsing.
        if b"skyline" not in data:
            continue
        from skyline.toml import parsed_toml

        try:
            content = parsed_toml(data, path)
        except UsageError as error:
            error.file = str(path)
            raise
        tool = content.get("tool")
        if isinstance(tool, Mapping) and "skyline" in tool:
            return cast("Mapping[str, Mapping[str, object]]", tool)["skyline"], path
    return None


def budget_of(folder: Path) -> tuple[Budget, Path] | None:
    """The budget in the nearest ``pyproject.toml`` with a table of Skyline, and the folder of that file.

    Raises:
        UsageError: the file cannot be read, or the table has an unknown key or a value that is not possible.
    """
    found = tool_table(folder)
    budget = None if found is None else found[0].get("budget")
    if found is None or budget is None:
        return None
    from skyline.toml import converted

    where = f"{found[1]}: [tool.skyline.budget]"
    if not isinstance(budget, Mapping):
        raise UsageError(f"{where} must be a table", hint="docs/how-to/ci-budget.md has an example.")
    return converted(dict(cast("Mapping[str, object]", budget)), Budget, where), found[1].parent


def watch_settings_of(folder: Path) -> tuple[WatchSettings, dict[str, dict[str, Any]], str]:
    """The settings of the nearest file that has them, the thresholds by rule, and the name for messages.

    Raises:
        UsageError: the file cannot be read, or the table does not fit.
    """
    found = tool_table(folder)
    table = None if found is None else found[0].get("watch")
    from skyline.settings.watch import WatchSettings
    from skyline.toml import converted

    if found is None or table is None:
        return WatchSettings(), {}, ""
    where = f"{found[1]}: [tool.skyline.watch]"
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} must be a table", hint="docs/watch.md has an example.")
    values = cast("Mapping[str, Any]", table)
    rules = {
        name: dict(cast("Mapping[str, Any]", value))
        for name, value in values.items()
        if isinstance(value, Mapping)
    }
    own = {name: value for name, value in values.items() if name not in rules}
    return converted(own, WatchSettings, where), rules, where


def _from_a_project(values: Mapping[str, object], directory: Path) -> dict[str, object]:
    result = dict(values)
    if result.get("profile.onSave") == "always":
        result["profile.onSave"] = "afterFirst"
    if result.get("network") == "open":
        result["network"] = "loopback"
    for key in _PATHS:
        value = result.get(key)
        if isinstance(value, str):
            result[key] = from_folder(value, directory)
    return result


def from_folder(value: str, folder: Path) -> str:
    """A file's path relative to ``folder``; a bare name, such as a program on the search path, is unchanged."""
    path = os.path.expanduser(value)
    if os.path.isabs(path) or (os.sep not in path and "/" not in path and not path.endswith(".py")):
        return path
    return str(folder / path)
