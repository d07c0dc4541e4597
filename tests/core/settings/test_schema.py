"""The published schemas are those of the settings, and so is what the VS Code extension declares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skyline.settings.keys import editor_schema, project_schema

REPOSITORY = Path(__file__).resolve().parents[3]
PACKAGE = REPOSITORY / "extension" / "package.json"
EXTENSION_ONLY = {"skyline.importStrategy", "skyline.heat.enable"}
MOST_SETTINGS = 24


@pytest.mark.parametrize(
    ("name", "schema"),
    [("settings", editor_schema()), ("pyproject", project_schema())],
    ids=["editor", "pyproject"],
)
def test_the_published_schema_is_current(name: str, schema: dict[str, Any]) -> None:
    kind = "editor" if name == "settings" else name
    published = REPOSITORY / "docs" / "schemas" / f"{name}.schema.json"
    text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    assert published.read_text(encoding="utf-8") == text, f"skyline config --schema {kind} > {published}"


def test_there_are_not_too_many() -> None:
    assert len(editor_schema()["properties"]) + len(EXTENSION_ONLY) <= MOST_SETTINGS


def test_the_extension_declares_the_same_settings() -> None:
    if not PACKAGE.exists():
        pytest.skip("the extension is not part of this source tree")
    declared = json.loads(PACKAGE.read_text(encoding="utf-8"))
    sections = declared["contributes"]["configuration"]
    sections = sections if isinstance(sections, list) else [sections]
    theirs = {key: value for section in sections for key, value in section["properties"].items()}
    ours = editor_schema()["properties"]
    assert set(theirs) - EXTENSION_ONLY == set(ours)
    assert len(theirs) <= MOST_SETTINGS
    for key, wanted in ours.items():
        found = theirs[key]
        types = found["type"] if isinstance(found["type"], list) else [found["type"]]
        assert set(types) == set(wanted["type"] if isinstance(wanted["type"], list) else [wanted["type"]]), (
            key
        )
        assert found["default"] == wanted["default"], key
        assert found.get("enum") == wanted.get("enum"), key
        assert found.get("scope") == wanted["scope"], key
        assert found.get("description") or found.get("markdownDescription"), key
        for limit in ("minimum", "maximum"):
            assert found.get(limit) == wanted.get(limit), key
    restricted = declared["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"]
    assert set(restricted) == {key for key, value in ours.items() if value.get("restricted")}
