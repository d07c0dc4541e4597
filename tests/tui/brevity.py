"""Shortcuts that make tests of the screen faster and leave out nothing that they look at."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.css.stylesheet import Stylesheet

TESTS = Path(__file__).resolve().parents[1]
SERVER = (sys.executable, str(TESTS / "brief_measurements.py"), "lsp")
RULES: dict[tuple[object, ...], Any] = {}
"""The rules of style sheets, by their text and variables."""
_parse = Stylesheet._parse_rules


def _parsed_once(sheet: Stylesheet, css: str, *place: object, **kind: object) -> Any:
    """The rules of a text. Textual keeps them for one app, and a test has a new one."""
    if (known := vars(sheet).get("variables_of_rules")) is None or known[0] is not sheet._variables:
        # Other variables come in another dictionary.
        known = vars(sheet)["variables_of_rules"] = sheet._variables, frozenset(sheet._variables.items())
    key = css, *place, *sorted(kind.items()), known[1]
    if key not in RULES:
        RULES[key] = _parse(sheet, css, *place, **kind)  # type: ignore[arg-type]
    return RULES[key]


@pytest.fixture(autouse=True)
def brief(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Servers that the screen starts measure briefly, and their interpreters import as fast as can be.

    The screen alone has few objects to collect; with it, a worker's are those of all tests.
    """
    monkeypatch.setattr("skyline_tui.client.server_command", lambda: SERVER)
    monkeypatch.setattr("skyline_tui.news.freeze_garbage_collector", lambda: None)
    monkeypatch.setattr(Stylesheet, "_parse_rules", _parsed_once)
    real = request.node.get_closest_marker("capture") is not None
    servers = request.getfixturevalue("forked_servers") if real else None
    if servers is None:
        monkeypatch.setenv("PYTHONPATH", str(TESTS / "preloaded"))
        yield
    else:
        with servers.in_place_of_programs():
            yield
