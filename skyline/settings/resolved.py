"""The effective settings, and the origin of each: command line, editor, ``pyproject.toml``, default."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skyline.settings.keys import keys, settings_of, value_of
from skyline.settings.model import Settings
from skyline.settings.source import Origin, SettingsSource

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
