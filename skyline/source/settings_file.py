"""Settings files (YAML, JSON, TOML, INI, Python): the places that hold a setting, and their rewriting."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePath

from skyline.errors import RewriteRefused, SkylineError
from skyline.source.knob import SettingPlace
from skyline.source.setting_formats import (
    SettingEntry,
    read_ini,
    read_json,
    read_python,
    read_toml,
    read_yaml,
)
from skyline.source.setting_names import Setting, is_training, rank
from skyline.source.text import SourceText, TextEdit


def entries(path: str, text: str) -> list[SettingEntry]:
    """All values of a file in textual order; empty if the file does not match its format."""
    return list(_entries(path, text))


@lru_cache(maxsize=32)
def _entries(path: str, text: str) -> tuple[SettingEntry, ...]:
    # An editor asks for the same text at each request.
    reader = _READERS.get(_suffix(path))
    try:
        return tuple(reader(text)) if reader else ()
    except (ValueError, SyntaxError, RecursionError):
        return ()


def setting_places(
    setting: Setting, files: Sequence[tuple[str, str]], value: int, arguments: Sequence[str] = ()
) -> list[SettingPlace]:
    """The places in settings files that hold this value of a setting, best first.

    ``files`` are (path, text) in opening order. A later file is assumed to override an earlier one. Settings of an
    evaluation are excluded. A place behind an interpolation stands for the key that refers to it. A section with the
    name of an argument of the script, ``--env CartPole-v1``, is preferred.
    """
    read = {path: entries(path, text) for path, text in files}
    words = {word for argument in arguments for word in (argument, argument.partition("=")[2])}
    found: dict[tuple[str, int, int], tuple[tuple[int, bool, bool, int, int], SettingPlace]] = {}
    for number, (path, own) in enumerate(read.items()):
        for entry in own:
            strength = rank(setting, entry.path)
            if strength is None:
                continue
            place, holder = (
                target(path, entry, read) or (path, entry) if is_reference(entry) else (path, entry)
            )
            if holder.whole_number != value:
                continue
            trains = any(map(is_training, entry.path))
            chosen = not words.isdisjoint(entry.path[:-1])
            order = (strength, not chosen, not trains, -number, holder.line)
            key = (place, holder.line, holder.column)
            if key not in found or order < found[key][0]:
                found[key] = order, SettingPlace(place, holder.line, holder.key, holder.text, holder.column)
    return [place for _, place in sorted(found.values(), key=lambda each: each[0])]


def batch_size_places(
    files: Sequence[tuple[str, str]], value: int, arguments: Sequence[str] = ()
) -> list[SettingPlace]:
    """The places in settings files that hold this batch size, best first, see ``setting_places``."""
    return setting_places(Setting.BATCH_SIZE, files, value, arguments)


def with_setting(place: SettingPlace, text: str, value: int) -> str | None:
    """The text of the file with another value at a place; None if the place no longer holds its value."""
    for entry in entries(place.file, text):
        if (entry.line, entry.key, entry.text) == (place.line, place.key, place.text):
            source = SourceText(place.file, text)
            return source.apply([_edit(source, entry, value)]).text
    return None


def setting_edit(place: SettingPlace, text: SourceText, value: int) -> tuple[TextEdit, ...]:
    """The edit of the value at a place, in its notation; none if the value is there already.

    The file may have changed: another line, or another number under the same key. Raises RewriteRefused if
    the key is gone or occurs several times.
    """
    entry = entry_now(place, text.text)
    if entry is None:
        message = (
            f"{PurePath(place.file).name} changed: `{place.key}` is no longer set the way that was profiled"
        )
        raise RewriteRefused(message, file=place.file, line=place.line, hint="Profile it again.")
    return () if entry.whole_number == value else (_edit(text, entry, value),)


def entry_now(place: SettingPlace, text: str) -> SettingEntry | None:
    """The entry of a place in a text that may have changed: on another line, or with another number.

    None if its key is gone, or occurs several times.
    """
    there = _there(place, text)
    return there[0] if len(there) == 1 else None


def as_recorded(places: Sequence[SettingPlace], text: SourceText) -> SourceText:
    """The text with the recorded numbers at these places, as far as they are found."""
    for place in places:
        recorded = SettingEntry(place.line, place.column, (), place.text).whole_number
        entry = entry_now(place, text.text)
        if entry is not None and recorded is not None and entry.whole_number != recorded:
            text = text.apply([_edit(text, entry, recorded)])
    return text


def same_settings(path: str, left: str, right: str) -> bool:
    """True if two texts of a settings file hold the same values under the same keys."""
    both = [[(entry.path, entry.text) for entry in entries(path, text)] for text in (left, right)]
    return both[0] == both[1] if all(both) else left == right


def check_keys(before: SourceText, after: SourceText) -> None:
    """Raise RewriteRefused if a change of numbers in a settings file changed more than numbers."""
    old = [entry.path for entry in entries(before.path, before.text)]
    if old != [entry.path for entry in entries(after.path, after.text)]:
        raise RewriteRefused("The changed file would not have the same keys", file=after.path)


def is_settings_file(path: str) -> bool:
    """True for a file of settings that is not Python."""
    return _suffix(path) in _READERS and _suffix(path) != ".py"


def still_holds(place: SettingPlace, text: str | None = None) -> bool:
    """True if a text, by default the file on disk, still holds the value of a place, on any line."""
    if text is None:
        try:
            text = SourceText.read(place.file).text
        except SkylineError:
            return False
    return any((entry.key, entry.text) == (place.key, place.text) for entry in entries(place.file, text))


def _there(place: SettingPlace, text: str) -> list[SettingEntry]:
    """The entry at a place, or else the entries of its key with another number, each position once."""
    found = {
        (entry.line, entry.column): entry for entry in entries(place.file, text) if entry.key == place.key
    }
    exact = [entry for entry in found.values() if (entry.line, entry.text) == (place.line, place.text)]
    return exact or [entry for entry in found.values() if entry.whole_number is not None]


def _edit(source: SourceText, entry: SettingEntry, value: int) -> TextEdit:
    start = source.offset(entry.line, entry.column)
    quote = entry.text[0] if entry.text[0] in "\"'" else ""
    return source.edit(source.span(start, start + len(entry.text)), f"{quote}{value}{quote}")


def _suffix(path: str) -> str:
    name = PurePath(path).name.lower()
    # ``.env`` and ``.env.local`` have no suffix that gives their format.
    return ".env" if name.startswith(".env") else PurePath(name).suffix


_READERS: dict[str, Callable[[str], Iterator[SettingEntry]]] = {
    **dict.fromkeys((".yaml", ".yml"), read_yaml),
    **dict.fromkeys((".json", ".json5", ".jsonc"), read_json),
    ".toml": read_toml,
    **dict.fromkeys((".ini", ".cfg", ".conf", ".properties", ".env"), read_ini),
    ".py": read_python,
}


_REFERENCE = re.compile(r"\$\{(?P<dots>\.*)(?P<key>\w[\w-]*(?:\.[\w-]+|\[\w+\])*)\}")
_PART = re.compile(r"[\w-]+")
_DEEPEST = 8


def is_reference(entry: SettingEntry) -> bool:
    """True if the value is one whole interpolation of a key, not a resolver (``${oc.env:N}``) or a part of a text."""
    return _REFERENCE.fullmatch(entry.bare) is not None


def target(
    file: str, entry: SettingEntry, files: Mapping[str, Sequence[SettingEntry]]
) -> tuple[str, SettingEntry] | None:
    """The file and the entry that an interpolation leads to, maybe through others; None if there is none.

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
