"""TOML, by lines that Python's own reader confirms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from skyline.source.setting_formats.entry import SettingEntry, unquoted

SECTION = re.compile(r"^\s*\[{1,2}\s*(?P<name>[^\[\]]+?)\s*\]{1,2}\s*(?:[#;].*)?$")
_COMMENT = re.compile(r"\s*#[^\"']*$")
_ENTRY = re.compile(r"^\s*(?P<key>[\w.\"'-]+(?:\s*\.\s*[\w\"'-]+)*)\s*=\s*(?P<value>\S.*?)\s*$")
_INLINE_ENTRY = re.compile(r"(?P<key>[\w.\"'-]+)\s*=\s*(?P<value>[\w+-]+)")


def read(text: str) -> Iterator[SettingEntry]:
    """A scan of lines; entries that Python's TOML reader does not find at the same keys are omitted."""
    from skyline.toml import tomllib

    whole = tomllib.loads(text)
    for entry in _lines(text):
        if entry.whole_number is None or entry.whole_number in _at(whole, entry.path):
            yield entry


def _lines(text: str) -> Iterator[SettingEntry]:
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := SECTION.match(line):
            section = tuple(unquoted(part) for part in header["name"].split("."))
            continue
        match = _ENTRY.match(_COMMENT.sub("", line))
        if match is None:
            continue
        path = (*section, *(unquoted(part.strip()) for part in match["key"].split(".")))
        if not match["value"].startswith("{"):
            yield SettingEntry(number, match.start("value"), path, match["value"])
            continue
        for inner in _INLINE_ENTRY.finditer(line, match.start("value")):
            yield SettingEntry(number, inner.start("value"), (*path, unquoted(inner["key"])), inner["value"])


def _at(tree: object, path: tuple[str, ...]) -> list[object]:
    """The values at a path of keys; tables in a list are searched one by one. A number in quotes counts."""
    if isinstance(tree, list):
        return [found for each in cast("list[object]", tree) for found in _at(each, path)]
    if not path:
        return [int(tree) if isinstance(tree, str) and tree.isdecimal() else tree]
    table = cast("dict[str, object]", tree) if isinstance(tree, dict) else {}
    return _at(table[path[0]], path[1:]) if path[0] in table else []
