"""Paths in a profile: relative to the script's folder when saved, so that a copied project refers to its own files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from skyline.source.knob import SettingPlace
from skyline.source.project import project_root
from skyline.source.span import SourceSpan
from skyline.trace.profile import Profile, SourceFile
from skyline.trace.record import CodeLine

_Move = Callable[[str], str]
_HOLDERS = ("CodeLine", "SourceSpan", "Knob", "SettingPlace")
_WITH_PATHS = (
    *("sources", "knobs", "optimizers", "loaders", "loop_line", "side_effects"),
    *("modules", "parallel", "calls", "setting", "configured"),
)
"""Fields of a profile that contain paths, besides plain path fields and the lines of its trace."""


def with_relative_paths(profile: Profile) -> Profile:
    """The form to save: paths of the project are relative to the script's folder, others (libraries) are unchanged."""
    script = Path(profile.script)
    folders = {str(script.parent): str(project_root(script))}
    real = Path(os.path.realpath(script))
    folders.setdefault(str(real.parent), str(project_root(real)))

    def move(path: str) -> str:
        for folder, root in folders.items():
            if os.path.isabs(path) and _is_below(path, root):
                return os.path.relpath(path, folder)
        return path

    return _moved(profile, move)


def with_absolute_paths(profile: Profile, folder: Path) -> Profile:
    """A loaded profile with paths for a script in ``folder``.

    Profiles of earlier versions hold absolute paths. Paths under the original project folder are moved to the folder
    that the project was copied to.
    """
    here = os.path.abspath(folder)
    if not os.path.isabs(profile.script):
        return _moved(profile, lambda path: os.path.normpath(os.path.join(here, path)))
    there = os.path.dirname(profile.script)
    if os.path.realpath(there) == os.path.realpath(here):
        return profile
    old, new = _roots(there, here)

    def move(path: str) -> str:
        inside = os.path.isabs(path) and _is_below(path, old)
        return os.path.normpath(os.path.join(new, os.path.relpath(path, old))) if inside else path

    return _moved(profile, move)


def _roots(there: str, here: str) -> tuple[str, str]:
    """The roots of two copies of a folder: both paths without their common trailing names."""
    old, new = Path(there), Path(here)
    while old.name and old.name == new.name:
        old, new = old.parent, new.parent
    # The file system root contains everything, so it is not a project root.
    return (str(old), str(new)) if old.name else (there, here)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _moved(profile: Profile, move: _Move) -> Profile:
    def told(path: str) -> str:
        # No file: an empty string, or a Python placeholder in angle brackets such as <string>.
        return path if not path or path.startswith("<") else move(path)

    changed: dict[str, Any] = {name: _with(getattr(profile, name), told) for name in _WITH_PATHS}
    return replace(
        profile,
        script=told(profile.script),
        working_directory=told(profile.working_directory),
        trace=replace(profile.trace, lines=_with(profile.trace.lines, told)),
        **changed,
    )


def _with(value: Any, move: _Move) -> Any:
    """The value with all its paths moved."""
    if isinstance(value, tuple):
        return tuple(_with(one, move) for one in value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (CodeLine, SourceSpan, SettingPlace)):
        return replace(value, file=move(value.file))
    if isinstance(value, SourceFile):
        return replace(value, path=move(value.path))
    kind: type = value.__class__
    names = _nested(kind)
    return replace(value, **{name: _with(getattr(value, name), move) for name in names}) if names else value


@cache
def _nested(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that may hold further objects; empty for other classes."""
    if not is_dataclass(kind):
        return ()
    return tuple(each.name for each in fields(kind) if any(one in str(each.type) for one in _HOLDERS))
