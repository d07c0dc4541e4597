"""What other packages add through entry points: loaded so that one that fails stops nobody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

Complaint = Callable[[Any], str]
"""Says what is wrong with something that was loaded; empty where nothing is."""


@dataclass(frozen=True, slots=True)
class Addition:
    """One thing that a package adds; ``source`` names it and the package, as in ``drop_last (from skyline-extra)``."""

    source: str
    value: Any


@dataclass(frozen=True, slots=True)
class Installed:
    """All that is added under one group, and sentences about what could not be used."""

    additions: tuple[Addition, ...]
    problems: tuple[str, ...]


def installed(group: str, complaint: Complaint) -> Installed:
    """Load the entry points of a group, by name; whatever one of them raises becomes a problem that names it."""
    additions: list[Addition] = []
    problems: list[str] = []
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        source = _source(entry)
        try:
            value = entry.load()
            wrong = complaint(value)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # a module that is imported may raise anything, SystemExit as well
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


def _source(entry: EntryPoint) -> str:
    package = entry.dist.name if entry.dist is not None else entry.value.partition(":")[0]
    return f"{entry.name} (from {package})"
