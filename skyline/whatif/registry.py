"""Finds the what-ifs: modules in the folders of the catalogue that bind ``WHATIF``, and those of other packages."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

import skyline.whatif.catalogue
from skyline.errors import UsageError
from skyline.installed import installed
from skyline.whatif.base import WhatIf
from skyline.whatif.plugin_whatif import PluginWhatIf, lacking

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
        raise UsageError(f"there is no what-if {name!r}", hint="Known: " + ", ".join(sorted(known)) + ".")
    return known[name]
