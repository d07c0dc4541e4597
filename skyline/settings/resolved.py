"""The settings in force, and where each of them comes from: command line, editor, ``pyproject.toml``, default."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skyline.settings.keys import keys, settings_of, value_of
from skyline.settings.model import Settings
from skyline.settings.source import Origin, SettingsSource

PRECEDENCE: tuple[Origin, ...] = ("command line", "editor", "pyproject", "default")
"""Who wins."""


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """One setting: its value, and who set it; ``place`` is the file that did, empty where it was none."""

    key: str
    value: object
    origin: Origin
    place: str = ""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings in force, each with its origin, and in words what could not be used."""

    settings: Settings
    entries: tuple[SettingInForce, ...]
    problems: tuple[str, ...] = ()


def resolve(sources: Iterable[SettingsSource | None]) -> Resolved:
    """Put together what the places say; sources of one origin count in the order given, the first one wins."""
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
