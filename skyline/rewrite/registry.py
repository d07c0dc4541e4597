"""Finds the rewrites: every module of the catalogue, and those that others install."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType

from skyline.rewrite import catalogue
from skyline.rewrite.context import RewriteContext
from skyline.source.edit import TextEdit

ENTRY_POINT_GROUP = "skyline.rewrites"
_USUAL_ORDER = 50

Rewrite = Callable[[RewriteContext, str], tuple[TextEdit, ...]]
"""Takes the value asked for, as text; gives the edits, none where all is as asked, or raises RewriteRefused."""

Snippet = Callable[[str], str]
"""Takes the value asked for; gives code."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One rewrite; of several together the one of the lowest ``order`` is carried out first, then by name."""

    name: str
    rewrite: Rewrite
    order: int = _USUAL_ORDER
    snippet: Snippet | None = None
    """What to write by hand where the rewrite is refused and says nothing else."""

    @classmethod
    def of(cls, module: ModuleType) -> Entry | None:
        """What a module binds as ``NAME`` and ``rewrite``, and maybe as ``ORDER`` and ``snippet``."""
        name: str | None = getattr(module, "NAME", None)
        rewrite: Rewrite | None = getattr(module, "rewrite", None)
        if name is None or rewrite is None:
            return None
        return cls(name, rewrite, getattr(module, "ORDER", _USUAL_ORDER), getattr(module, "snippet", None))


@cache
def entries() -> dict[str, Entry]:
    """All known rewrites by the name of the what-if that they carry out, in the order of being carried out."""
    found: dict[str, Entry] = {}
    modules = [
        import_module(each.name)
        for each in pkgutil.iter_modules(catalogue.__path__, f"{catalogue.__name__}.")
    ]
    for module in (*modules, *(entry.load() for entry in entry_points(group=ENTRY_POINT_GROUP))):
        if entry := Entry.of(module):
            found.setdefault(entry.name, entry)
    return {
        entry.name: entry for entry in sorted(found.values(), key=lambda entry: (entry.order, entry.name))
    }


@cache
def rewrites() -> dict[str, Rewrite]:
    """All known rewrites, by the name of the what-if that they carry out."""
    return {name: entry.rewrite for name, entry in entries().items()}
