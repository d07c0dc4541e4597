"""The entry points of installed packages, read from their declaration files, and the objects that they add.

``importlib.metadata`` does the same, but importing it and reading all packages take longer than an answer
from a saved profile. It is used if packages are elsewhere than in folders of ``sys.path``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import reduce
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any

from skyline.lazy_dataclass import dataclass

_INFO = re.compile(r"(?P<name>.+?)(?:-\d.*)?\.(?:dist|egg)-info")
_VALUE = re.compile(r"(?P<module>[\w.]+)\s*(?::\s*(?P<attributes>[\w.]+))?\s*(?:\[.*\])?")


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An object that ``package`` declares. ``value`` is its module, followed by a colon and its name in the module."""

    name: str
    value: str
    package: str

    def load(self) -> Any:
        """Import the module and return the object. Raises the import's exceptions, or ValueError for a bad value."""
        found = _VALUE.fullmatch(self.value)
        if found is None:
            raise ValueError(f"{self.value!r} names no object")
        module = import_module(found["module"])
        attributes = found["attributes"]
        return reduce(getattr, attributes.split(".") if attributes else (), module)


def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group. If a package has two versions, the imported one counts."""
    folders = [entry or os.curdir for entry in sys.path]
    if any(map(os.path.isfile, folders)) or any(map(_finds_packages, sys.meta_path)):
        return tuple(_of_all_finders(group))
    return tuple(_of_folders(folders, group))


def _finds_packages(finder: object) -> bool:
    return finder is not PathFinder and hasattr(finder, "find_distributions")


def _of_all_finders(group: str) -> Iterator[EntryPoint]:
    from importlib import metadata

    for entry in metadata.entry_points(group=group):
        package = entry.dist.name if entry.dist is not None else entry.value.partition(":")[0]
        yield EntryPoint(entry.name, entry.value, package)


def _of_folders(folders: list[str], group: str) -> Iterator[EntryPoint]:
    header = f"[{group}]".encode()
    seen: set[str] = set()
    for folder in dict.fromkeys(folders):
        for info in _infos(folder):
            found = _INFO.fullmatch(info)
            name = re.sub(r"[-_.]+", "_", found["name"]).lower() if found is not None else ""
            if not name or name in seen:
                continue
            seen.add(name)
            text = _read(os.path.join(folder, info, "entry_points.txt"))
            if header in text:
                package = _name_in(os.path.join(folder, info)) or name
                for key, value in _declared(text.decode("utf-8", "replace"), group):
                    yield EntryPoint(key, value, package)


def _infos(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info")))
    except OSError:
        return []


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _name_in(info: str) -> str:
    """The name of a package in its own spelling."""
    text = _read(os.path.join(info, "METADATA")) or _read(os.path.join(info, "PKG-INFO"))
    found = re.search(rb"^Name:\s*(\S+)", text, re.MULTILINE)
    return found.group(1).decode("utf-8", "replace") if found else ""


def _declared(text: str, group: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[]").strip()
        elif section == group and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()


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
