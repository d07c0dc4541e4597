"""The file with the user's own GPUs and prices: its location and its entries."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from skyline.bounded_read import LARGEST_TEXT_BYTES, read_bounded
from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.toml import converted, parsed_toml

_Struct = TypeVar("_Struct", bound=msgspec.Struct)

FILE_VARIABLE = "SKYLINE_DEVICES"
_NAME = "devices.toml"
_TABLES = {"gpu", "price", "energy"}
_HINT = "docs/devices.md shows an example."


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
    values: dict[str, Any]

    def converted(self, values: dict[str, Any], kind: type[_Struct]) -> _Struct:
        """``values``, made from those of the entry, as a ``kind``; raises UsageError if they do not fit."""
        return converted(values, kind, f"{self.path}: {self.label}", hint=_HINT)

    def wrong(self, what: str, hint: str = "") -> UsageError:
        """The error for a problem of this entry."""
        return UsageError(f"{self.path}: {self.label}: {what}", hint=hint or _HINT)


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
        raise UsageError(f"{path}: write [[{kind}]] above each {kind}", hint=_HINT)
    tables = cast("list[dict[str, Any]]", found)
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
    return parsed_toml(data, path)


def _label(kind: str, number: int, table: dict[str, Any]) -> str:
    name = table.get("name") or table.get("gpu")
    return f'{kind} "{name}"' if isinstance(name, str) else kind if kind == "energy" else f"{kind} {number}"
