"""Finds the rewrites: every module of this package that binds ``NAME`` and ``rewrite``."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module

import skyline.rewrite
from skyline.rewrite.context import RewriteContext
from skyline.source.edit import TextEdit

Rewrite = Callable[[RewriteContext, str], tuple[TextEdit, ...]]
"""Takes the value asked for, as text; gives the edits, none where all is as asked, or raises RewriteRefused."""


@cache
def rewrites() -> dict[str, Rewrite]:
    """All known rewrites, by the name of the what-if that they carry out."""
    found: dict[str, Rewrite] = {}
    for entry in pkgutil.iter_modules(skyline.rewrite.__path__, "skyline.rewrite."):
        module = import_module(entry.name)
        name: str | None = getattr(module, "NAME", None)
        rewrite: Rewrite | None = getattr(module, "rewrite", None)
        if name is not None and rewrite is not None:
            found[name] = rewrite
    return found
