"""Finds the what-ifs: every module of the catalogue that binds ``WHATIF``, and those that others install."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

import skyline.whatif.catalogue
from skyline.errors import UsageError
from skyline.whatif.base import WhatIf

ENTRY_POINT_GROUP = "skyline.whatifs"


@cache
def whatifs() -> dict[str, WhatIf]:
    """All known what-ifs by name, in the order in which they are applied together."""
    found: dict[str, WhatIf] = {}
    for module in pkgutil.iter_modules(skyline.whatif.catalogue.__path__, "skyline.whatif.catalogue."):
        whatif: WhatIf | None = getattr(import_module(module.name), "WHATIF", None)
        if whatif is not None:
            found[whatif.name] = whatif
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        installed: WhatIf = entry.load()
        found.setdefault(installed.name, installed)
    return dict(sorted(found.items(), key=lambda item: (item[1].stage, item[0])))


def whatif_named(name: str) -> WhatIf:
    """The what-if of that name.

    Raises:
        UsageError: there is none.
    """
    known = whatifs()
    if name not in known:
        raise UsageError(f"there is no what-if {name!r}", hint="Known: " + ", ".join(sorted(known)) + ".")
    return known[name]
