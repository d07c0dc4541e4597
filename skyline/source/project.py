"""The folder that a script belongs to, and the files that Skyline may edit for it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from skyline.errors import RewriteRefused

_MARKS = ("pyproject.toml", ".git")


def project_root(script: Path) -> Path:
    """The nearest folder above the script with a pyproject.toml or a .git, else the script's own folder."""
    for folder in script.parents:
        if any((folder / mark).exists() for mark in _MARKS):
            return folder
    return script.parent


def check_inside(script: Path, files: Iterable[str], folders: Iterable[Path] = ()) -> None:
    """Refuse edits outside the script's project and the given ``folders``.

    The target of an edit comes from a profile, and a profile may arrive with a folder from someone else. Raises
    RewriteRefused.
    """
    script = script.absolute()
    around = {project_root(script), *(folder for folder in folders if folder.absolute() in script.parents)}
    roots = [os.path.realpath(folder) for folder in around]
    for file in files:
        real = os.path.realpath(file)
        if real != os.path.realpath(script) and not any(_is_below(real, root) for root in roots):
            raise RewriteRefused(
                f"{file} lies outside the project of {script.name} ({project_root(script)})",
                file=file,
                hint="Nothing was changed. Make this change by hand.",
            )


def _is_below(path: str, folder: str) -> bool:
    return os.path.commonpath((path, folder)) == folder
