"""Finds the rules: modules of the catalogue that bind ``RULE``, and rules of other packages."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

import skyline.watch.catalogue
from skyline.entry_points import installed
from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.watch.rule import WatchRule

ENTRY_POINT_GROUP = "skyline.watch_rules"


@dataclass(frozen=True, slots=True)
class Known:
    """All rule classes by name, and messages about unusable rules of other packages."""

    classes: Mapping[str, type[WatchRule]]
    problems: tuple[str, ...]


@cache
def known_rules() -> Known:
    """The catalogue, and the rules of other packages."""
    found: dict[str, type[WatchRule]] = {}
    for module in pkgutil.iter_modules(skyline.watch.catalogue.__path__, "skyline.watch.catalogue."):
        rule: type[WatchRule] | None = getattr(import_module(module.name), "RULE", None)
        if rule is not None:
            found[module.name.rpartition(".")[2]] = rule
    others = installed(ENTRY_POINT_GROUP, lacking)
    problems = list(others.problems)
    for addition in others.additions:
        name = addition.source.partition(" ")[0]
        if name in found:
            problems.append(f"{addition.source} is left out: there is a rule {name!r} already")
        else:
            found[name] = addition.value
    return Known(found, tuple(problems))


def lacking(value: Any) -> str:
    """The parts that an object lacks to be a rule, in words; empty if it is one."""
    if not (isinstance(value, type) and is_dataclass(value)):
        return "it is not a dataclass"
    if not callable(getattr(value, "check", None)):
        return "it has no `check(course)`"
    try:
        value()
    except Exception:
        return "a threshold has no default"
    return ""


def made_rules(thresholds: Mapping[str, Mapping[str, object]], where: str) -> dict[str, WatchRule]:
    """All rules with these thresholds, by rule and threshold.

    Raises:
        UsageError: a rule or a threshold does not exist, or a value does not fit.
    """
    classes = known_rules().classes
    for name in thresholds:
        rule_class(name)
    return {name: _made(name, kind, thresholds.get(name, {}), where) for name, kind in classes.items()}


def rule_class(name: str) -> type[WatchRule]:
    """The rule with this name. Raises UsageError if there is none."""
    classes = known_rules().classes
    if name not in classes:
        raise UsageError(f"There is no rule {name!r}", hint=f"Rules: {', '.join(sorted(classes))}.")
    return classes[name]


def _made(name: str, kind: type[Any], given: Mapping[str, object], where: str) -> WatchRule:
    names = [one.name for one in fields(kind)]
    for key in given:
        if key not in names:
            hint = f"Thresholds of {name}: {', '.join(names)}." if names else f"{name} has no threshold."
            raise UsageError(f"{where}: {name} has no threshold {key!r}", hint=hint)
    try:
        return msgspec.convert(dict(given), kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {name}: {str(error).replace('`', '')}") from error
