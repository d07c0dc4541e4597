"""OmegaConf's interpolations: ``${train.batch_size}`` is the value of another key, maybe of another file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from skyline.source.setting_formats.entry import SettingEntry

_REFERENCE = re.compile(r"\$\{(?P<dots>\.*)(?P<key>\w[\w-]*(?:\.[\w-]+|\[\w+\])*)\}")
_PART = re.compile(r"[\w-]+")
_DEEPEST = 8


def is_reference(entry: SettingEntry) -> bool:
    """True if the value is one whole interpolation of a key, not a resolver (``${oc.env:N}``) or a part of a text."""
    return _REFERENCE.fullmatch(entry.bare) is not None


def target(
    file: str, entry: SettingEntry, files: Mapping[str, Sequence[SettingEntry]]
) -> tuple[str, SettingEntry] | None:
    """The file and the entry that an interpolation leads to, through others if need be; None if there is none.

    ``files`` are in opening order: a later file overrides an earlier one. The folders of a file count as keys, since
    a file of a group (``conf/data/small.yaml``) is composed under the name of the group.
    """
    for _ in range(_DEEPEST):
        match = _REFERENCE.fullmatch(entry.bare)
        if match is None:
            return file, entry
        wanted = tuple(_PART.findall(match["key"]))
        if up := len(match["dots"]):
            if up > len(entry.path):
                return None
            wanted = (*entry.path[: len(entry.path) - up], *wanted)
        found = _named(wanted, [file] if up else list(files), files)
        if found is None:
            return None
        file, entry = found
    return None


def _named(
    wanted: tuple[str, ...], among: Sequence[str], files: Mapping[str, Sequence[SettingEntry]]
) -> tuple[str, SettingEntry] | None:
    for file in reversed(among):
        for entry in reversed(files[file]):
            if entry.path == wanted:
                return file, entry
            whole = (*PurePath(file).parent.parts, *entry.path)
            if len(entry.path) < len(wanted) and whole[-len(wanted) :] == wanted:
                return file, entry
    return None
