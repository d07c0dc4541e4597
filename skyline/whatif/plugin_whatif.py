"""A what-if that another package brings: whatever it raises, the others are answered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from skyline.errors import SkylineError
from skyline.installed import said
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
