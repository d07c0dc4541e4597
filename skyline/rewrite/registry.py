"""Finds the rewrites: each catalogue module defines one or a table of them, and other packages install more."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from skyline.entry_points import installed, said
from skyline.errors import RewriteRefused, SkylineError, UsageError
from skyline.lazy_dataclass import dataclass
from skyline.rewrite import catalogue
from skyline.rewrite.context import RewriteContext
from skyline.source.settings_file import check_keys, is_settings_file
from skyline.source.text import TextEdit, parse

ENTRY_POINT_GROUP = "skyline.rewrites"
_USUAL_ORDER = 50

P = ParamSpec("P")
R = TypeVar("R")

Rewrite = Callable[[RewriteContext, str], tuple[TextEdit, ...]]
"""Takes the value asked for, as text; gives the edits, none if the code is as asked, or raises RewriteRefused."""

Snippet = Callable[[str], str]
"""Takes the value asked for; gives code."""

Present = Callable[[RewriteContext], str | None]
"""Gives the value in the code (``bf16``, ``2``, ``on``). None if the code does not have the change."""

Notes = Callable[[RewriteContext, str], tuple[str, ...]]
"""Takes the value asked for; gives consequences that a person must know, such as the new start command."""

Remove = Callable[[RewriteContext], tuple[TextEdit, ...]]
"""Gives the edits that remove the change from the code, or raises RewriteRefused."""


@dataclass(frozen=True, slots=True)
class RewriteEntry:
    """One rewrite; several together run in the order of ``order``, lowest first, then by name."""

    name: str
    rewrite: Rewrite
    order: int = _USUAL_ORDER
    snippet: Snippet | None = None
    """The code to write by hand if the rewrite is refused without code of its own."""
    present: Present | None = None
    remove: Remove | None = None
    """Set with ``present`` or not at all: without them the change is never detected, and cannot be removed."""
    notes: Notes | None = None
    notes_unchanged: Notes | None = None
    """Notes for code that has the change already, such as its start command."""

    @classmethod
    def of(cls, module: ModuleType) -> RewriteEntry | None:
        """The entry of a module with ``NAME`` and ``rewrite``; the other attributes are optional."""
        name: str | None = getattr(module, "NAME", None)
        present: Present | None = getattr(module, "present", None)
        # A module may have imported a function of this name for other purposes.
        remove: Remove | None = getattr(module, "remove", None) if present is not None else None
        rewrite: Rewrite | None = getattr(module, "rewrite", None)
        if name is None or rewrite is None:
            return None
        return cls(
            name,
            rewrite,
            getattr(module, "ORDER", _USUAL_ORDER),
            getattr(module, "snippet", None),
            present if remove is not None else None,
            remove,
            getattr(module, "notes", None),
            getattr(module, "notes_unchanged", None),
        )

    def carried_out(self, context: RewriteContext, value: str) -> RewriteContext:
        """The context of the next rewrite; raises RewriteRefused if the edited file would not be valid Python."""
        edits = self.rewrite(context.again(), value)
        made = context.edited(edits)
        for path in dict.fromkeys(edit.span.file for edit in edits):
            if is_settings_file(path):
                check_keys(context.text(path), made.text(path))
                continue
            try:
                parse(made.text(path))
            except UsageError as error:
                raise RewriteRefused("The changed file would not be valid Python", file=path) from error
        return made


@cache
def _modules() -> tuple[str, ...]:
    return tuple(each.name for each in pkgutil.iter_modules(catalogue.__path__))


@cache
def _found() -> tuple[dict[str, RewriteEntry], tuple[str, ...]]:
    found: dict[str, RewriteEntry] = {}
    for each in _modules():
        module = import_module(f"{catalogue.__name__}.{each}")
        entry = RewriteEntry.of(module)
        for one in (entry,) if entry is not None else getattr(module, "ENTRIES", ()):
            found.setdefault(one.name, one)
    others = installed(ENTRY_POINT_GROUP, _lacking)
    problems = list(others.problems)
    for addition in others.additions:
        entry = RewriteEntry.of(addition.value)
        if entry is None or entry.name in found:
            problems.append(f"{addition.source} is left out: there is a rewrite of that name already")
        else:
            found[entry.name] = _guarded(entry, addition.source)
    ordered = sorted(found.values(), key=lambda entry: (entry.order, entry.name))
    return {entry.name: entry for entry in ordered}, tuple(problems)


def entries() -> dict[str, RewriteEntry]:
    """All known rewrites in the order in which they run, by the name of the what-if."""
    return _found()[0]


def entry_named(name: str) -> RewriteEntry | None:
    """The rewrite of a what-if; if a module has this name, the others are not imported."""
    own = RewriteEntry.of(import_module(f"{catalogue.__name__}.{name}")) if name in _modules() else None
    return own or entries().get(name)


def problems() -> tuple[str, ...]:
    """Unusable rewrites of other packages, with the reasons."""
    return _found()[1]


def _lacking(module: Any) -> str:
    """The missing parts of a rewrite module in words; empty if it is complete."""
    if not isinstance(getattr(module, "NAME", None), str) or not callable(getattr(module, "rewrite", None)):
        return "a module with NAME and rewrite(context, value) is wanted"
    return "" if isinstance(getattr(module, "ORDER", 0), int) else "its ORDER is not a number"


def _guarded(entry: RewriteEntry, source: str) -> RewriteEntry:
    """Turns any exception of another package's rewrite into a refusal."""

    def guarded(function: Callable[P, R]) -> Callable[P, R]:
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except SkylineError:
                raise
            except Exception as error:
                raise RewriteRefused(f"{source} failed: {said(error)}") from error

        return call

    def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
        return tuple(entry.rewrite(context, value))

    return replace(
        entry,
        rewrite=guarded(rewrite),
        present=None if entry.present is None else guarded(entry.present),
        remove=None if entry.remove is None else guarded(entry.remove),
        notes=None if entry.notes is None else guarded(entry.notes),
        notes_unchanged=None if entry.notes_unchanged is None else guarded(entry.notes_unchanged),
    )
