"""Every setting by its key, and the JSON schemas of the settings, derived from the dataclasses."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from skyline.lazy_dataclass import dataclass
from skyline.settings.budget import Budget
from skyline.settings.model import SECTION, Settings
from skyline.settings.watch import WatchSettings


@dataclass(frozen=True, slots=True)
class Key:
    """One setting: its path in ``Settings``, its type with its limits, and its default."""

    fields: tuple[str, ...]
    kind: Any
    default: object

    @property
    def name(self) -> str:
        """The name in editors: ``profile.onSave``."""
        return ".".join(map(camel, self.fields))

    @property
    def snake_name(self) -> str:
        """The name in ``pyproject.toml``: ``profile.on_save``."""
        return ".".join(self.fields)

    @property
    def meta(self) -> msgspec.Meta:
        """Its description, and where an editor may set it."""
        return next(one for one in typing.get_args(self.kind) if isinstance(one, msgspec.Meta))

    def checked(self, value: object) -> object:
        """The value converted to the type; raises ``msgspec.ValidationError`` for an invalid one."""
        return msgspec.convert(value, self.kind)


@cache
def keys() -> tuple[Key, ...]:
    """All settings, in the order of the documentation."""
    return tuple(_keys(Settings, ()))


def settings_of(values: Mapping[str, object]) -> Settings:
    """Settings from values by key; missing ones get their defaults."""
    return _built(Settings, (), values)


def value_of(settings: Settings, key: Key) -> Any:
    """The value of one setting."""
    value: Any = settings
    for field in key.fields:
        value = getattr(value, field)
    return value


def camel(name: str) -> str:
    """The key of a field in editors: ``min_share`` is ``minShare``."""
    head, *rest = name.split("_")
    return head + "".join(part.upper() if len(part) == 1 else part.title() for part in rest)


def _keys(kind: Any, prefix: tuple[str, ...]) -> Iterator[Key]:
    hints = typing.get_type_hints(kind, include_extras=True)
    default = kind()
    for field in dataclasses.fields(kind):
        expected = hints[field.name]
        if dataclasses.is_dataclass(expected):
            yield from _keys(expected, (*prefix, field.name))
        else:
            yield Key((*prefix, field.name), expected, getattr(default, field.name))


def _built(kind: Any, prefix: tuple[str, ...], values: Mapping[str, object]) -> Any:
    hints = typing.get_type_hints(kind)
    given: dict[str, object] = {}
    for field in dataclasses.fields(kind):
        place = (*prefix, field.name)
        if dataclasses.is_dataclass(hints[field.name]):
            given[field.name] = _built(hints[field.name], place, values)
        elif (name := ".".join(map(camel, place))) in values:
            given[field.name] = values[name]
    return kind(**given)


_DRAFT = "http://json-schema.org/draft-07/schema#"


def editor_schema() -> dict[str, Any]:
    """A flat schema with full keys (``skyline.profile.steps``), as editors declare the settings of an extension.

    ``scope`` and ``restricted`` are VS Code's terms for the places where a setting may be set, and for settings that it
    ignores in an untrusted workspace.
    """
    properties = {f"{SECTION}.{key.name}": {**_property(key), **(key.meta.extra or {})} for key in keys()}
    return {
        "$schema": _DRAFT,
        "title": "Skyline: settings in an editor",
        "type": "object",
        "properties": properties,
    }


def project_schema() -> dict[str, Any]:
    """A nested schema in snake_case, for the table ``[tool.skyline]``."""
    properties: dict[str, Any] = {}
    for key in keys():
        holder = properties
        for section in key.fields[:-1]:
            empty: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": {}}
            holder = holder.setdefault(section, empty)["properties"]
        holder[key.fields[-1]] = _property(key)
    (properties["budget"], properties["watch"]), definitions = msgspec.json.schema_components(
        [Budget, WatchSettings], ref_template="#/definitions/{name}"
    )
    # Each rule has a table with its thresholds, and other packages add rules.
    definitions["WatchSettings"]["additionalProperties"] = {"type": "object"}
    return {
        "$schema": _DRAFT,
        "title": "Skyline: [tool.skyline] of a pyproject.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "definitions": definitions,
    }


def _property(key: Key) -> dict[str, Any]:
    schema: dict[str, Any] = dict(msgspec.json.schema(key.kind))
    if "anyOf" in schema:
        # Editors offer an input field for a plain list of types, but not for alternatives.
        schema["type"] = [alternative["type"] for alternative in schema.pop("anyOf")]
    if "enum" in schema:
        schema["type"] = "string"
    return {**schema, "default": msgspec.json.decode(msgspec.json.encode(key.default))}
