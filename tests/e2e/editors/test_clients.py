"""The clients that cannot run here: their files say the same as the server, and as the pages that show them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from skyline.settings.source import from_editor
from skyline.version import __version__

REPOSITORY = Path(__file__).resolve().parents[3]
CLIENTS = REPOSITORY / "extension"


def shown(page: str, language: str) -> list[str]:
    text = (REPOSITORY / "docs" / "editors" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def check_settings(settings: Mapping[str, Any]) -> None:
    source = from_editor(settings)
    assert source.values, "the server knows none of these settings"
    assert not source.problems


def test_the_template_for_jetbrains_is_what_its_page_says() -> None:
    folder = CLIENTS / "jetbrains" / "skyline"
    template = json.loads((folder / "template.json").read_text(encoding="utf-8"))
    page = (REPOSITORY / "docs" / "editors" / "jetbrains.md").read_text(encoding="utf-8")
    assert f"| Server | Name | `{template['name']}` |" in page
    assert f"| Server | Command | `{template['programArgs']['default']}`" in page
    (mapping,) = template["fileTypeMappings"]
    (pattern,) = mapping["fileType"]["patterns"]
    assert (
        f"| Mappings | File name patterns | `{pattern}`, with the language id `{mapping['languageId']}` |"
        in page
    )
    check_settings(json.loads((folder / "settings.json").read_text(encoding="utf-8")))


def test_the_extension_for_zed_names_the_server_of_its_page() -> None:
    manifest = (CLIENTS / "zed" / "extension.toml").read_text(encoding="utf-8")
    assert f'version = "{__version__}"' in manifest
    (name,) = re.findall(r"^\[language_servers\.(\w+)\]$", manifest, re.MULTILINE)
    (settings,) = map(json.loads, shown("zed.md", "json"))
    assert name in settings["languages"]["Python"]["language_servers"]
    # The extension puts them into the section of the server.
    assert f'"{name}": settings' in (CLIENTS / "zed" / "src" / "skyline.rs").read_text(encoding="utf-8")
    check_settings({name: settings["lsp"][name]["settings"]})


@pytest.mark.parametrize("page", ["sublime.md"])
def test_the_configuration_of_a_page_starts_the_server(page: str) -> None:
    (settings,) = map(json.loads, shown(page, "json"))
    client = settings["clients"]["skyline"]
    assert client["command"] == ["skyline", "lsp"]
    check_settings(client["settings"])
