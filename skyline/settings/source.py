"""The settings of each source (an editor, a ``pyproject.toml``, the command line), and those in force."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, cast

import msgspec

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.settings.keys import Key, keys, settings_of, value_of
from skyline.settings.model import SECTION, Settings

Origin = Literal["command line", "editor", "pyproject", "default"]


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """The values from one source, by key in camelCase; ``problems`` are messages about unusable values.

    ``place`` is the path of the file; empty if the origin is sufficient.
    """

    origin: Origin
    values: Mapping[str, object]
    problems: tuple[str, ...] = ()
    place: str = ""


def from_editor(value: object) -> SettingsSource:
    """The settings from an editor, with or without the enclosing section name.

    Unknown keys are ignored: an extension has its own settings in the same section.
    """
    given: Mapping[str, object] = cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}
    wrapped = isinstance(given.get(SECTION), Mapping)
    values, problems = _read(given.get(SECTION) if wrapped else cast("object", value), SECTION, camel=True)
    return SettingsSource("editor", values, tuple(problems))


def from_table(table: object, place: str) -> SettingsSource:
    """The table ``[tool.skyline]`` of the file at ``place``; unknown keys are reported as problems."""
    values, problems = _read(table, "tool.skyline", camel=False)
    problems += _unknown(table)
    return SettingsSource("pyproject", values, tuple(f"{place}: {problem}" for problem in problems), place)


def from_words(words: Sequence[str]) -> SettingsSource:
    """``KEY=VALUE`` from a command line; the value is JSON or else text.

    Raises:
        UsageError: the key does not exist, or the value is invalid.
    """
    known = {name: key for key in keys() for name in (key.name, key.snake_name)}
    values: dict[str, object] = {}
    for word in words:
        name, equals, text = word.partition("=")
        key = known.get(name.removeprefix(f"{SECTION}."))
        if key is None:
            raise UsageError(f"{name} is not a setting", hint=_nearest(name, [one.name for one in keys()]))
        if not equals:
            raise UsageError(f"{name} has no value", hint=f"Write {name}=VALUE.")
        values[key.name] = _typed(key, text)
    return SettingsSource("command line", values)


def _typed(key: Key, text: str) -> object:
    try:
        value: object = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = text
    try:
        return key.checked(value)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{key.name}={text}: {error}", hint="See skyline config, or docs/settings.md."
        ) from error


def _read(value: object, where: str, *, camel: bool) -> tuple[dict[str, object], list[str]]:
    values: dict[str, object] = {}
    problems: list[str] = []
    if value is None:
        return values, problems
    if not isinstance(value, Mapping):
        return values, [f"{where} must be an object, not {value!r}; the defaults are used"]
    bad_sections: set[str] = set()
    for key in keys():
        path = key.name.split(".") if camel else list(key.fields)
        holder = _holder(cast("Mapping[str, object]", value), path, where, problems, bad_sections)
        given = holder.get(path[-1]) if holder is not None else None
        if given is None:
            continue
        try:
            values[key.name] = key.checked(given)
        except msgspec.ValidationError as error:
            problems.append(
                f"{where}.{'.'.join(path)} is {given!r}: {error}; the default {_shown(key.default)} is used"
            )
    return values, problems


def _holder(
    value: Mapping[str, object], path: list[str], where: str, problems: list[str], bad: set[str]
) -> Mapping[str, object] | None:
    """The object with the last part of a key; None without one, reported once if it is not an object."""
    holder = value
    for depth, part in enumerate(path[:-1], 1):
        inner = holder.get(part)
        place = f"{where}.{'.'.join(path[:depth])}"
        if inner is not None and not isinstance(inner, Mapping) and place not in bad:
            bad.add(place)
            problems.append(f"{place} must be an object, not {inner!r}; the defaults are used")
        if not isinstance(inner, Mapping):
            return None
        holder = cast("Mapping[str, object]", inner)
    return holder


def _unknown(table: object) -> list[str]:
    if not isinstance(table, Mapping):
        return []
    names = [key.snake_name for key in keys()]
    sections = {name.rpartition(".")[0] for name in names}
    found: list[str] = []
    for name, value in cast("Mapping[str, Any]", table).items():
        if name in sections and isinstance(value, Mapping):
            inner = cast("Mapping[str, object]", value)
            found += [f"{name}.{one}" for one in inner if f"{name}.{one}" not in names]
        elif name not in names and name not in sections and name not in {"budget", "watch"}:
            found.append(name)
    return [f"tool.skyline.{name} is not a setting. {_nearest(name, names)}" for name in found]


def _nearest(name: str, names: Sequence[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"Did you mean {near[0]}?" if near else "docs/settings.md lists them."


def _shown(default: object) -> str:
    return msgspec.json.encode(default).decode()


PRECEDENCE: tuple[Origin, ...] = ("command line", "editor", "pyproject", "default")
"""Origins, highest precedence first."""


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """One setting: its value and its origin; ``place`` is the file of the origin, empty if there is none."""

    key: str
    value: object
    origin: Origin
    place: str = ""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The effective settings, each with its origin, and messages about unusable ones."""

    settings: Settings
    entries: tuple[SettingInForce, ...]
    problems: tuple[str, ...] = ()


def resolve(sources: Iterable[SettingsSource | None]) -> Resolved:
    """Merge the sources; among sources of one origin, the first takes precedence."""
    known = sorted((one for one in sources if one is not None), key=lambda one: PRECEDENCE.index(one.origin))
    values: dict[str, object] = {}
    setters: dict[str, SettingsSource] = {}
    for source in known:
        for name, value in source.values.items():
            if name not in values:
                values[name], setters[name] = value, source
    settings = settings_of(values)
    entries = tuple(
        SettingInForce(
            key.name,
            value_of(settings, key),
            setters[key.name].origin if key.name in setters else "default",
            setters[key.name].place if key.name in setters else "",
        )
        for key in keys()
    )
    return Resolved(settings, entries, tuple(problem for one in known for problem in one.problems))
