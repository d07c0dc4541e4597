"""Finds the what-ifs: modules in the folders of the catalogue that bind ``WHATIF``, and plugins of other packages."""

from __future__ import annotations

import pkgutil
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

from skyline.entry_points import installed, said
from skyline.errors import SkylineError, UsageError
from skyline.lazy_dataclass import dataclass
from skyline.whatif import catalogue
from skyline.whatif.base import Applicability, Grain, Scenario, Semantics, Stage, Subject, WhatIf

_KINDS = {"semantics": Semantics, "stage": Stage, "grain": Grain}
_METHODS = ("title", "detect", "transform")


@dataclass(frozen=True, slots=True)
class PluginWhatIf:
    """A what-if from another package; ``source`` names it and its package."""

    whatif: WhatIf
    source: str

    @property
    def name(self) -> str:
        """The name as it is typed."""
        return self.whatif.name

    @property
    def semantics(self) -> Semantics:
        """The effect of the change on the training itself."""
        return self.whatif.semantics

    @property
    def stage(self) -> Stage:
        """The position in the order in which several what-ifs are applied."""
        return self.whatif.stage

    @property
    def grain(self) -> Grain:
        """The grain of the graph that it reads."""
        return self.whatif.grain

    @property
    def excludes(self) -> tuple[str, ...]:
        """Names of what-ifs that cannot be combined with it."""
        return self.whatif.excludes

    def title(self, value: str) -> str:
        """The change in a few words; its name if ``title`` fails."""
        try:
            return self.whatif.title(value)
        except Exception:
            return self.name

    def detect(self, subject: Subject) -> Applicability:
        """The applicability of the what-if; not applicable if ``detect`` fails."""
        try:
            found: Any = self.whatif.detect(subject)
        except Exception as error:
            return Applicability.no(f"{self.source} failed: {said(error)}")
        if not isinstance(found, Applicability):
            return Applicability.no(f"{self.source} failed: it returned no Applicability")
        return found

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Make the change; if it fails, the scenario stays unchanged and gets the reason."""
        try:
            changed: Any = self.whatif.transform(scenario, value, subject)
        except SkylineError:
            raise
        except Exception as error:
            return replace(scenario, reason=f"{self.source} failed: {said(error)}")
        if not isinstance(changed, Scenario):
            return replace(scenario, reason=f"{self.source} failed: it returned no Scenario")
        return changed


def lacking(value: Any) -> str:
    """The part that an object lacks to be a what-if, in words; empty if it is one."""
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
def _modules() -> dict[str, str]:
    """The modules of the catalogue by their last name, which is also the name of the what-if in the module."""
    found = pkgutil.walk_packages(catalogue.__path__, f"{catalogue.__name__}.")
    return {one.name.rpartition(".")[2]: one.name for one in found if not one.ispkg}


def _own(name: str) -> WhatIf | None:
    """The what-if of the catalogue with that name; no other module of the catalogue is imported."""
    module = _modules().get(name)
    return None if module is None else getattr(import_module(module), "WHATIF", None)


@cache
def _found() -> tuple[dict[str, WhatIf], tuple[str, ...]]:
    """The what-ifs of other packages, and the problems of those that cannot be used."""
    found: dict[str, WhatIf] = {}
    others = installed(ENTRY_POINT_GROUP, lacking)
    problems = list(others.problems)
    for addition in others.additions:
        plugin = PluginWhatIf(addition.value, addition.source)
        if plugin.name in found or _own(plugin.name) is not None:
            problems.append(f"{plugin.source} is left out: there is a what-if {plugin.name!r} already")
        else:
            found[plugin.name] = plugin
    return found, tuple(problems)


def whatifs() -> dict[str, WhatIf]:
    """All known what-ifs by name, in the order in which they are applied together."""
    own = {name: whatif for name in _modules() if (whatif := _own(name)) is not None}
    return dict(sorted((own | _found()[0]).items(), key=lambda item: (item[1].stage, item[0])))


def names() -> frozenset[str]:
    """The names of all known what-ifs. Reading the catalogue's modules takes a tenth of the time of importing them."""
    own = (name for name, module in _modules().items() if _binds_one(module))
    return frozenset(own) | _found()[0].keys()


def _binds_one(module: str) -> bool:
    package, _, last = module.rpartition(".")
    return b"\nWHATIF = " in (pkgutil.get_data(package, f"{last}.py") or b"")


def problems() -> tuple[str, ...]:
    """What-ifs of other packages that could not be used, with the reasons."""
    return _found()[1]


def whatif_named(name: str) -> WhatIf:
    """The what-if of that name.

    Raises:
        UsageError: there is none.
    """
    found = _own(name) or _found()[0].get(name)
    if found is None:
        from difflib import get_close_matches

        known = whatifs()
        near = get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(sorted(known))}."
        raise UsageError(f"there is no what-if {name!r}", hint=hint)
    return found
