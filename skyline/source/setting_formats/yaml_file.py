"""YAML, by the positions of a parser: anchors and aliases, merged mappings, flow style and several documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from skyline.source.setting_formats.entry import SettingEntry

_LARGEST = 200_000
"""Characters. A settings file is smaller; the parser reads about as much in two seconds."""
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
_MERGE = "<<"
_DEEPEST = 40


def read(text: str) -> Iterator[SettingEntry]:
    """Scalars in textual order. A value behind an alias stands where its anchor is, under the keys of both."""
    if len(text) > _LARGEST:
        return
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    parser: Any = YAML(typ="safe", pure=True)
    try:
        documents: list[Any] = list(parser.compose_all(text))
    except YAMLError as error:
        raise ValueError(f"not YAML: {error}") from error
    found = [entry for document in documents for entry in _scalars(document, (), text, 0)]
    yield from sorted(found, key=lambda entry: (entry.line, entry.column))


def _scalars(node: Any, path: tuple[str, ...], text: str, depth: int) -> Iterator[SettingEntry]:
    kind = getattr(node, "id", "")
    if depth > _DEEPEST:
        return
    if kind == "mapping":
        for key, value in node.value:
            name = str(key.value) if getattr(key, "id", "") == "scalar" else ""
            inner = path if name == _MERGE or not name else (*path, name)
            yield from _scalars(value, inner, text, depth + 1)
    elif kind == "sequence":
        for value in node.value:
            yield from _scalars(value, path, text, depth + 1)
    elif kind == "scalar" and node.style not in ("|", ">"):
        start, end = node.start_mark.index, node.end_mark.index
        properties = _PROPERTIES.match(text, start, end)
        start = properties.end() if properties else start
        written = text[start:end]
        if written and "\n" not in written:
            column = start - (text.rfind("\n", 0, start) + 1)
            yield SettingEntry(text.count("\n", 0, start) + 1, column, path, written)
