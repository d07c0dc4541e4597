"""Finds the rules: every module of this package that binds ``RULE``."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

import skyline.findings
from skyline.findings.base import Finding, Rule
from skyline.whatif.baseline import Baseline


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, in the order of their codes."""
    found: list[Rule] = []
    for module in pkgutil.iter_modules(skyline.findings.__path__, "skyline.findings."):
        rule: Rule | None = getattr(import_module(module.name), "RULE", None)
        if rule is not None:
            found.append(rule)
    return tuple(sorted(found, key=lambda rule: rule.code))


def find(baseline: Baseline) -> tuple[Finding, ...]:
    """What the rules find, dearest first."""
    found = [finding for rule in rules() if (finding := rule.check(baseline)) is not None]
    return tuple(sorted(found, key=lambda finding: (-finding.cost_ms, finding.code)))
