"""Finds the what-ifs: modules in the folders of the catalogue that bind ``WHATIF``, and those of other packages."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any

import skyline.whatif.catalogue
from skyline.entry_points import installed, said
from skyline.errors import SkylineError, UsageError
from skyline.whatif.base import Applicability, Grain, Scenario, Semantics, Stage, Subject, WhatIf

_KINDS = {"semantics": Semantics, "stage": Stage, "grain": Grain}
_METHODS = ("title", "detect", "transform")


@dataclass(frozen=True, slots=True)
class PluginWhatIf:
    """Stands for a what-if from elsewhere; ``source`` says which, and from which package."""

    whatif: WhatIf
    source: str

    @property
    def name(self) -> str:
        """As it is typed."""
        return self.whatif.name

    @property
    def semantics(self) -> Semantics:
        """The effect of the change on the training itself."""
        return self.whatif.semantics

    @property
    def stage(self) -> Stage:
        """When it is applied, of several."""
        return self.whatif.stage

    @property
    def grain(self) -> Grain:
        """The grain of the graph that it reads."""
        return self.whatif.grain

    @property
    def excludes(self) -> tuple[str, ...]:
        """Names of what-ifs that cannot be made together with it."""
        return self.whatif.excludes

    def title(self, value: str) -> str:
        """The change in a few words; its name where it has none."""
        try:
            return self.whatif.title(value)
        except Exception:
            return self.name

    def detect(self, subject: Subject) -> Applicability:
        """True if it applies; it does not where it fails."""
        try:
            found: Any = self.whatif.detect(subject)
        except Exception as error:
            return Applicability.no(f"{self.source} failed: {said(error)}")
        if not isinstance(found, Applicability):
            return Applicability.no(f"{self.source} failed: it gave back no Applicability")
        return found

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Make the change, or say that it failed and leave everything as it was."""
        try:
            changed: Any = self.whatif.transform(scenario, value, subject)
        except SkylineError:
            raise
        except Exception as error:
            return replace(scenario, reason=f"{self.source} failed: {said(error)}")
        if not isinstance(changed, Scenario):
            return replace(scenario, reason=f"{self.source} failed: it gave back no Scenario")
        return changed


def lacking(value: Any) -> str:
    """The parts that an object lacks to be a what-if, in words; empty where it is one."""
    name = getattr(value, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        return "its `name` is not an identifier"
    for attribute, kind in _KINDS.items():
        if not isinstance(getattr(value, attribute, None), kind):
            return f"its `{attribute}` is not a {kind.__name__}"
    excludes = getattr(value, "excludes", None)
    if not isinstance(excludes, tuple):
        return "its `excludes` is not a tuple of names"
    for method in _METHODS:
        if not callable(getattr(value, method, None)):
            return f"it has no `{method}(…)`"
    return ""


ENTRY_POINT_GROUP = "skyline.whatifs"


@cache
def _found() -> tuple[dict[str, WhatIf], tuple[str, ...]]:
    found: dict[str, WhatIf] = {}
    for module in pkgutil.walk_packages(skyline.whatif.catalogue.__path__, "skyline.whatif.catalogue."):
        whatif: WhatIf | None = getattr(import_module(module.name), "WHATIF", None)
        if whatif is not None:
            found[whatif.name] = whatif
    others = installed(ENTRY_POINT_GROUP, lacking)
    problems = list(others.problems)
    for addition in others.additions:
        plugin = PluginWhatIf(addition.value, addition.source)
        if plugin.name in found:
            problems.append(f"{plugin.source} is left out: there is a what-if {plugin.name!r} already")
        else:
            found[plugin.name] = plugin
    return dict(sorted(found.items(), key=lambda item: (item[1].stage, item[0]))), tuple(problems)


def whatifs() -> dict[str, WhatIf]:
    """All known what-ifs by name, in the order in which they are applied together."""
    return _found()[0]


def problems() -> tuple[str, ...]:
    """What-ifs of other packages that could not be used, with the reasons."""
    return _found()[1]


def whatif_named(name: str) -> WhatIf:
    """The what-if of that name.

    Raises:
        UsageError: there is none.
    """
    known = whatifs()
    if name not in known:
        from difflib import get_close_matches

        near = get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(sorted(known))}."
        raise UsageError(f"there is no what-if {name!r}", hint=hint)
    return known[name]
