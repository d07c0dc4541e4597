"""The JSON schemas of the settings: for editors, and for ``[tool.skyline]`` of a ``pyproject.toml``."""

from __future__ import annotations

from typing import Any

import msgspec

from skyline.settings.keys import Key, keys
from skyline.settings.model import SECTION

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
    return {
        "$schema": _DRAFT,
        "title": "Skyline: [tool.skyline] of a pyproject.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }


def _property(key: Key) -> dict[str, Any]:
    schema: dict[str, Any] = dict(msgspec.json.schema(key.kind))
    if "anyOf" in schema:
        # Editors offer an input field for a plain list of types, but not for alternatives.
        schema["type"] = [alternative["type"] for alternative in schema.pop("anyOf")]
    if "enum" in schema:
        schema["type"] = "string"
    return {**schema, "default": msgspec.json.decode(msgspec.json.encode(key.default))}
