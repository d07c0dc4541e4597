"""Finds the what-ifs for recordings: every module of this package that binds ``WHATIF``."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

import skyline.whatif.traced
from skyline.whatif.traced.base import TracedWhatIf


@cache
def traced_whatifs() -> dict[str, TracedWhatIf]:
    """All by name, in the order in which they are applied together."""
    found: dict[str, TracedWhatIf] = {}
    for module in pkgutil.iter_modules(skyline.whatif.traced.__path__, "skyline.whatif.traced."):
        whatif: TracedWhatIf | None = getattr(import_module(module.name), "WHATIF", None)
        if whatif is not None:
            found[whatif.name] = whatif
    return dict(sorted(found.items(), key=lambda item: (item[1].stage, item[0])))
