"""Places in the person's source as they are printed: short, but still possible to open."""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from typing import Protocol


class Placed(Protocol):
    """A row with a place in the source; ``cell`` is its place in a notebook, else empty."""

    @property
    def file(self) -> str:
        """The path."""
        ...

    @property
    def line(self) -> int:
        """The line, counted from 1."""
        ...

    @property
    def cell(self) -> str:
        """``In [7]:3``."""
        ...


_MOST_FOLDERS_UP = 2
"""A relative path with more folders up is no easier to read than the absolute one."""


def short_path(file: str, base: Path | None) -> str:
    """``file`` relative to ``base`` if it lies below it, or near it (``../package/model.py``), else unchanged."""
    if base is None or not os.path.isabs(file):
        return file
    try:
        path = PurePath(os.path.relpath(file, base))
    except ValueError:
        return file  # Another drive.
    near = path.parts.count("..") <= _MOST_FOLDERS_UP
    return path.as_posix() if near and len(str(path)) < len(file) else file


def common_base(script: str, files: tuple[str, ...]) -> Path:
    """The folder of the script, or the nearest one above it that also contains the other files.

    Falls back to the script's folder if that would be the root or another drive.
    """
    folder = os.path.dirname(script)
    try:
        shared = os.path.commonpath([folder, *(os.path.dirname(file) for file in files if file)])
    except ValueError:
        return Path(folder)
    return Path(folder) if len(PurePath(shared).parts) <= 2 else Path(shared)


def shown_from(base: Path | None, script: str, files: tuple[str, ...]) -> Path:
    """``base`` if the script lies below it, else the folder that contains the script and its modules."""
    if base is not None and PurePath(script).is_relative_to(base):
        return base
    return common_base(script, files)


def middle(text: str, width: int, ellipsis: str = "…", tail: int | None = None) -> str:
    """``text`` in at most ``width`` characters. The middle is cut, since names differ at their ends.

    ``tail`` is the number of characters to keep at the end (default: half of them).
    """
    if len(text) <= width:
        return text
    if width <= len(ellipsis):
        return ellipsis[:width]
    keep = width - len(ellipsis)
    tail = (keep + 1) // 2 if tail is None else min(tail, keep)
    return text[: keep - tail] + ellipsis + text[len(text) - tail :]


def fitted_path(path: str, width: int, ellipsis: str = "…") -> str:
    """A path or place in at most ``width`` characters: its folders are cut first, and its name last."""
    name = path.rpartition("/")[2]
    if len(path) <= width or len(name) > width:
        return middle(path if len(path) <= width else name, width, ellipsis)
    folder = middle(path, width, f"{ellipsis}/", tail=len(name))
    # One or two letters of a folder are useless: better none at all.
    if len(folder) - len(name) > 6:
        return folder
    without = f"{ellipsis}/{name}"
    return without if len(without) <= width else name


def place(file: str, line: int, base: Path | None) -> str:
    """``model.py:88``, as editors and terminals open it."""
    return f"{short_path(file, base)}:{line}" if line else short_path(file, base)


def place_of(placed: Placed, base: Path | None) -> str:
    """The place of a row: ``model.py:88``, or ``In [7]:3`` in a notebook."""
    return placed.cell or place(placed.file, placed.line, base)
