"""The paths in a profile: saved relative to the script's folder, so that a copied project speaks of its own files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from skyline.source.project import project_root
from skyline.source.setting_place import SettingPlace
from skyline.source.span import SourceSpan
from skyline.trace.profile import Profile, SourceFile
from skyline.trace.record import CodeLine

_Move = Callable[[str], str]
_HOLDERS = ("CodeLine", "SourceSpan", "Knob")
_WITH_PATHS = (
    *("sources", "knobs", "optimizers", "loaders", "loop_line", "side_effects"),
    *("modules", "parallel", "calls", "setting"),
)
"""The fields of a profile, besides those that are paths themselves and the lines of its trace, that hold any."""


def unrooted(profile: Profile) -> Profile:
    """As saved beside its script: the paths of the project are relative, others (libraries) stay as they are."""
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


def rooted(profile: Profile, folder: Path) -> Profile:
    """A loaded profile with the paths that they have where its script is in ``folder``.

    Profiles of earlier versions hold absolute paths. Those under the folder that the project was copied from become
    paths under the one that it was copied to.
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
    """Two folders of one name in two trees: without the names that they share at the end."""
    old, new = Path(there), Path(here)
    while old.name and old.name == new.name:
        old, new = old.parent, new.parent
    # The topmost folder holds everything: what lies elsewhere is none of the project.
    return (str(old), str(new)) if old.name else (there, here)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _moved(profile: Profile, move: _Move) -> Profile:
    def told(path: str) -> str:
        # What names no file: nothing, and what Python puts in brackets, such as <string>.
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
    """The value with every path in it moved."""
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
    """The fields of a class that may hold further objects; none of what is no dataclass."""
    if not is_dataclass(kind):
        return ()
    return tuple(each.name for each in fields(kind) if any(one in str(each.type) for one in _HOLDERS))
