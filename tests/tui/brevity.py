"""Shortcuts that make tests of the screen faster and leave out nothing that they look at."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode

TESTS = Path(__file__).resolve().parents[1]
SERVER = (sys.executable, str(TESTS / "brief_measurements.py"), "lsp")
RULES: dict[tuple[object, ...], Any] = {}
"""The rules of style sheets, by their text and variables."""
STYLES: dict[tuple[Any, ...], Styled] = {}
"""The styles of widgets, by all rules of the app."""
_parse = Stylesheet._parse_rules
_apply = Stylesheet.apply


class Styled:
    """The styles that the same rules gave before."""

    def __init__(self) -> None:
        self.pseudo_classes: dict[frozenset[str], frozenset[str]] = {}
        """All that rules for these names ask for."""
        self.by_path: dict[tuple[object, ...], Any] = {}
        """The result of the rules, by all that they can ask of a widget and of those around it."""


def _parsed_once(sheet: Stylesheet, css: str, *place: object, **kind: object) -> Any:
    """The rules of a text. Textual keeps them for one app, and a test has a new one."""
    if (known := vars(sheet).get("variables_of_rules")) is None or known[0] is not sheet._variables:
        # Other variables come in another dictionary.
        known = vars(sheet)["variables_of_rules"] = sheet._variables, frozenset(sheet._variables.items())
    key = css, *place, *sorted(kind.items()), known[1]
    if key not in RULES:
        RULES[key] = _parse(sheet, css, *place, **kind)  # type: ignore[arg-type]
    return RULES[key]


def _styled(sheet: Stylesheet) -> Styled:
    rules = sheet.rules
    if (known := vars(sheet).get("styles_of_rules")) is None or known[0] is not rules:
        known = vars(sheet)["styles_of_rules"] = rules, STYLES.setdefault(tuple(rules), Styled())
    return known[1]


def _applied_once(sheet: Stylesheet, node: DOMNode, *, animate: bool = False, cache: Any = None) -> None:
    """Give a widget its styles. Textual searches all rules for each widget, several times for each app."""
    styled, names = _styled(sheet), frozenset(node._selector_names)
    asked = styled.pseudo_classes.get(names)
    if asked is None:
        rules = [rule for name in sheet.rules_map.keys() & names for rule in sheet.rules_map[name]]
        asked = styled.pseudo_classes[names] = frozenset().union(*(rule.pseudo_classes for rule in rules))
    if asked & sheet._EXCLUDE_PSEUDO_CLASSES_FROM_CACHE:
        _apply(sheet, node, animate=animate, cache=cache)
        return
    path = tuple(
        (type(one), one.id, one.classes, frozenset(filter(one.has_pseudo_class, asked)))
        for one in node.css_path_nodes
    )
    if (rules_of_node := styled.by_path.get(path)) is None:
        found: dict[tuple[object, ...], Any] = {}
        _apply(sheet, node, animate=animate, cache=found)
        styled.by_path.update((path, rules) for rules in found.values())
        return
    node._has_hover_style = "hover" in asked
    node._has_focus_within = node._has_order_style = node._has_odd_or_even = False
    sheet.replace_rules(node, rules_of_node, animate=animate)
    sheet._process_component_classes(node)


@pytest.fixture(autouse=True)
def brief(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Servers that the screen starts measure briefly, and their interpreters import as fast as can be.

    The screen alone has few objects to collect; with it, a worker's are those of all tests.
    """
    monkeypatch.setattr("skyline_tui.client.server_command", lambda: SERVER)
    monkeypatch.setattr("skyline_tui.news.freeze_garbage_collector", lambda: None)
    monkeypatch.setattr(Stylesheet, "_parse_rules", _parsed_once)
    monkeypatch.setattr(Stylesheet, "apply", _applied_once)
    real = request.node.get_closest_marker("capture") is not None
    servers = request.getfixturevalue("forked_servers") if real else None
    if servers is None:
        monkeypatch.setenv("PYTHONPATH", str(TESTS / "preloaded"))
        yield
    else:
        with servers.in_place_of_programs():
            yield
