"""The file with the user's own GPUs and prices: its location, and its entries with their checks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from skyline.bounded_read import LARGEST_TEXT_BYTES, read_bounded
from skyline.errors import UsageError

FILE_VARIABLE = "SKYLINE_DEVICES"
_NAME = "devices.toml"
_TABLES = {"gpu", "price", "energy"}


def own_table_path() -> Path:
    """The file in ``SKYLINE_DEVICES``, else ``devices.toml`` in the system's usual configuration folder."""
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "skyline" / _NAME
    # The XDG base directory specification requires relative paths to be ignored.
    given = os.environ.get("XDG_CONFIG_HOME", "")
    config = Path(given) if os.path.isabs(given) else Path.home() / ".config"
    return config / "skyline" / _NAME


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One table of the file. ``label`` names it in errors, such as ``gpu "X1"``."""

    path: Path
    label: str
    values: Mapping[str, object]

    def text(self, key: str, default: str | None = None) -> str:
        """A non-empty text; required without ``default``."""
        value = self.values.get(key, default)
        if value is None:
            raise self.wrong(f"{key} is missing")
        if not isinstance(value, str) or (not value.strip() and value != default):
            raise self.wrong(f"{key} must be a text, not {value!r}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty if missing."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(
            isinstance(one, str) for one in cast("list[object]", value)
        ):
            raise self.wrong(f"{key} must be a list of texts, not {value!r}")
        return tuple(cast("list[str]", value))

    def number(self, key: str, low: float, high: float, unit: str, default: float | None = None) -> float:
        """A number between ``low`` and ``high``: limits wide enough for real values that detect a wrong unit."""
        value = self.values.get(key, default)
        if value is None:
            raise self.wrong(f"{key} is missing")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(f"{key} must be a number, not {value!r}")
        if not low <= value <= high:
            raise self.wrong(f"{key} = {value:g} is not between {low:g} and {high:g}: it is in {unit}")
        return float(value)

    def optional(self, key: str, low: float, high: float, unit: str, default: float | None) -> float | None:
        """A number for a property that some GPUs lack: ``false`` means absent; ``default`` if the key is missing."""
        if key not in self.values:
            return default
        if self.values[key] is False:
            return None
        return self.number(key, low, high, unit)

    def known(self, keys: Iterable[str]) -> None:
        """Raise UsageError for an unknown key, with the nearest known key."""
        from difflib import get_close_matches

        allowed = list(keys)
        for key in self.values:
            if key not in allowed:
                near = get_close_matches(key, allowed, n=1)
                hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(allowed)}."
                raise self.wrong(f"{key} is not known here", hint)

    def wrong(self, what: str, hint: str = "") -> UsageError:
        """The error for a problem of this entry."""
        return UsageError(
            f"{self.path}: {self.label}: {what}", hint=hint or "docs/devices.md shows an example."
        )


def own_entries(kind: str) -> tuple[TableEntry, ...]:
    """The entries of one kind (``gpu``, ``price``, ``energy``), in order; empty without a file.

    Raises:
        UsageError: the file is unreadable or invalid.
    """
    path = own_table_path()
    content = _content(path)
    unknown = sorted(set(content) - _TABLES)
    if unknown:
        raise UsageError(
            f"{path}: {unknown[0]} is not known",
            hint="The tables are [[gpu]], [[price]] and [energy].",
        )
    found = content.get(kind, [])
    if kind == "energy" and isinstance(found, dict):
        found = [cast("dict[str, object]", found)]
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in cast("list[object]", found)):
        raise UsageError(
            f"{path}: write [[{kind}]] above each {kind}", hint="docs/devices.md shows an example."
        )
    tables = cast("list[dict[str, object]]", found)
    return tuple(
        TableEntry(path, _label(kind, number, table), table) for number, table in enumerate(tables, 1)
    )


def _content(path: Path) -> dict[str, Any]:
    try:
        data = read_bounded(path, LARGEST_TEXT_BYTES)
    except FileNotFoundError:
        if os.environ.get(FILE_VARIABLE):
            raise UsageError(
                f"{path} does not exist", hint=f"{FILE_VARIABLE} names it: correct or unset it."
            ) from None
        return {}
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    tomllib = _toml()
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error


def _toml() -> Any:
    """The TOML reader: Python's own from 3.11 on, else the library that it came from."""
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib
    import tomli

    return tomli


def _label(kind: str, number: int, table: Mapping[str, object]) -> str:
    name = table.get("name") or table.get("gpu")
    return f'{kind} "{name}"' if isinstance(name, str) else kind if kind == "energy" else f"{kind} {number}"
