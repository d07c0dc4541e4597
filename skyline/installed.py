"""Additions of other packages through entry points; a failing one does not affect the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skyline.entry_points import entry_points

Complaint = Callable[[Any], str]
"""Returns the problem of a loaded addition; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Addition:
    """One addition of a package; ``source`` names both, such as ``drop_last (from skyline-extra)``."""

    source: str
    value: Any


@dataclass(frozen=True, slots=True)
class Installed:
    """All additions of one group, and messages about unusable ones."""

    additions: tuple[Addition, ...]
    problems: tuple[str, ...]


def installed(group: str, complaint: Complaint) -> Installed:
    """Load the entry points of a group, by name; an exception of one becomes a problem message with its name."""
    additions: list[Addition] = []
    problems: list[str] = []
    for entry in sorted(entry_points(group), key=lambda entry: (entry.name, entry.value)):
        source = f"{entry.name} (from {entry.package})"
        try:
            value = entry.load()
            wrong = complaint(value)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # an imported module may raise anything, including SystemExit
            problems.append(f"{source} cannot be loaded: {said(error)}")
            continue
        if wrong:
            problems.append(f"{source} is left out: {wrong}")
        else:
            additions.append(Addition(source, value))
    return Installed(tuple(additions), tuple(problems))


def said(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
