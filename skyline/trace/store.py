"""Profiles on disk: saved in the script's folder, loaded, and found by script."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import re
import time
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from skyline.bounded_read import read_bounded, read_unpacked
from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.source.cells import is_notebook
from skyline.source.knob import SettingPlace
from skyline.source.project import project_root
from skyline.source.text import SourceSpan
from skyline.trace.history_row import HistoryRow, history_row
from skyline.trace.profile import CAPTURE_SCHEMA, Profile, SourceFile, check_plausible
from skyline.trace.record import CodeLine
from skyline.uncollected import uncollected

_Move = Callable[[str], str]
_HOLDERS = ("CodeLine", "SourceSpan", "Knob", "SettingPlace")
_WITH_PATHS = (
    *("sources", "knobs", "optimizers", "loaders", "loop_line", "side_effects"),
    *("modules", "parallel", "calls", "setting", "configured", "failed_trials"),
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


FOLDER = ".skyline"
SUFFIX = ".profile.json.gz"
# The id has no hyphen: train-big-0a1b2c3d is of train-big.py, not of train.py.
_NAME = re.compile(rf"(?P<stem>.+)-[^-]+{re.escape(SUFFIX)}")
LARGEST_BYTES = 80 << 20
"""Largest unpacked size. An iteration of 10,000 operators takes about 3 MB, and a few are recorded."""
_MOST_VALUES = 4_600_000
_MOST_OBJECTS = 850_000
"""Most values in a file of that size. A value of a real run takes 18 bytes of text, an object 190. As a Python object,
a value takes up to 150 bytes of memory: with these limits no file takes 1 GB while it is read."""
_PART = ".part"
_PARTIAL = re.compile(rf"\..+{re.escape(SUFFIX)}\.\d+{re.escape(_PART)}")
_ABANDONED_AFTER_S = 600.0
"""Age, in s, of an abandoned temporary file; saving takes a second."""
_ASIDE = f".aside{SUFFIX}"
"""Suffix of profiles that are kept but not shown."""
_KEPT_PER_SCRIPT = 20
_UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
"""The exceptions of decoding and checking a text."""


@dataclass(frozen=True, slots=True)
class _Header:
    schema: str = ""


def save(profile: Profile, directory: Path | None = None, *, aside: bool = False) -> Path:
    """Write a profile atomically.

    The destination is ``directory``, or ``.skyline`` in the script's folder; if that is not writable, the user's cache
    folder. The oldest profiles of a script beyond the last twenty are removed. A profile that is set ``aside`` is never
    the latest. Raises UsageError if no folder is writable.
    """
    tried: list[str] = []
    beside, *others = _folders(Path(profile.script)) if directory is None else (None, directory)
    for folder in filter(None, (beside, *others)):
        data = _packed(with_relative_paths(profile) if folder == beside else profile)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if directory is None:
                _keep_out_of_version_control(folder)
            name = name_of(Path(profile.script), profile.id)
            path = folder / (name.removesuffix(SUFFIX) + _ASIDE if aside else name)
            _write_whole(path, data)
        except OSError as error:
            tried.append(f"{folder}: {error.strerror or error}")
            continue
        _remove_old(folder, _stem(Path(profile.script)))
        return path
    raise UsageError(
        f"The profile could not be saved ({'; '.join(tried)})", hint="Name a folder with --output-dir."
    )


@uncollected()
def load(path: Path, script: Path | None = None) -> Profile:
    """Load a saved profile, optionally that of ``script``; its paths refer to the project that contains the file.

    Raises UsageError for a file that is not a profile, is damaged, or is of another version or another script.
    """
    profile = _read(path)
    folder = script.absolute().parent if script is not None else _script_folder(profile, path.absolute())
    if script is not None and Path(profile.script).name != script.name:
        raise UsageError(
            f"{path} is a profile of {Path(profile.script).name}, not of {script.name}",
            hint="Profile the script again.",
        )
    return profile if folder is None else with_absolute_paths(profile, folder)


def _script_folder(profile: Profile, path: Path) -> Path | None:
    """The script's folder for a profile at ``path``; None if the profile itself contains it."""
    if path.parent.name == FOLDER:
        return path.parent.parent
    return None if os.path.isabs(profile.script) else path.parent


def _read(path: Path) -> Profile:
    try:
        data = read_unpacked(path, LARGEST_BYTES)
        if data.count(b",") > _MOST_VALUES or data.count(b"{") > _MOST_OBJECTS:
            raise ValueError("it holds more values than a profile of its size can")
        header = msgspec.json.decode(data, type=_Header)
    except (gzip.BadGzipFile, *_UNREADABLE) as error:
        raise UsageError(
            f"{path} is damaged or not a Skyline profile: {error}", hint="Profile the script again."
        ) from error
    except OSError as error:
        hint = "Profile the script again." if error.errno == errno.EFBIG else ""
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", hint=hint) from error
    if header.schema != CAPTURE_SCHEMA:
        found = header.schema or "no schema"
        raise UsageError(
            f"{path} is not a profile of this version ({found}, expected {CAPTURE_SCHEMA})",
            hint="Profile the script again.",
        )
    try:
        profile = msgspec.json.decode(data, type=Profile)
        check_plausible(profile)
    except _UNREADABLE as error:
        raise UsageError(f"{path} is damaged: {error}", hint="Profile the script again.") from error
    return profile


def name_of(script: Path, profile_id: str) -> str:
    """The file name of a script's profile."""
    return f"{_stem(script)}-{profile_id}{SUFFIX}"


def _stem(script: Path) -> str:
    """The beginning of the file names. A notebook keeps its suffix: a script of the same name may exist."""
    return script.name if is_notebook(script) else script.stem


def latest(script: Path) -> Path | None:
    """The newest saved profile of a script that was not set aside, if there is one."""
    return next(iter(shown_first(script)), None)


def shown_first(script: Path) -> tuple[Path, ...]:
    """Every saved profile of a script that was not set aside, newest first."""
    return tuple(path for path in saved(script) if not path.name.endswith(_ASIDE))


def put_forward(script: Path) -> Path | None:
    """Make the newest profile the one to show if it was set aside; None if it was not.

    Raises UsageError if its file cannot be renamed.
    """
    newest = next(iter(saved(script)), None)
    if newest is None or not newest.name.endswith(_ASIDE):
        return None
    path = newest.with_name(newest.name.removesuffix(_ASIDE) + SUFFIX)
    try:
        return newest.rename(path)
    except OSError as error:
        raise UsageError(f"{newest} cannot be renamed: {error.strerror or error}") from error


def saved(script: Path) -> tuple[Path, ...]:
    """Every saved profile of a script, newest first."""
    found: list[Path] = []
    for folder in _folders(script.absolute()):
        found += profiles_in(folder, _stem(script))
    return tuple(sorted(found, key=_saved_at, reverse=True))


def saved_as(script: Path, profile_id: str) -> Path | None:
    """The saved profile of a script with this id, if there is one."""
    name = name_of(script, profile_id)
    return next((path for path in saved(script) if path.name == name), None)


def profiles_in(folder: Path, stem: str = "") -> list[Path]:
    """The profile files in a folder, unsorted; ``stem`` selects those of a script."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = (_NAME.fullmatch(name) for name in names)
    paths = (folder / name[0] for name in found if name is not None and stem in {"", name["stem"]})
    return [path for path in paths if path.is_file()]


def _saved_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0  # removed in the meantime


def _packed(profile: Profile) -> bytes:
    plain = msgspec.json.encode(profile)
    if len(plain) > LARGEST_BYTES:
        size_mb, most_mb = len(plain) >> 20, LARGEST_BYTES >> 20
        raise UsageError(f"The profile could not be saved: it takes {size_mb} MB, more than {most_mb} MB")
    return gzip.compress(plain, compresslevel=3)


def _folders(script: Path) -> list[Path]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skyline"
    # One folder per script directory, so that two scripts named train.py stay separate.
    from hashlib import sha256

    place = sha256(str(script.parent).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return [script.parent / FOLDER, cache / place]


def _keep_out_of_version_control(folder: Path) -> None:
    ignore = folder / ".gitignore"
    # A dangling link would be followed to its target.
    if not os.path.lexists(ignore):
        ignore.write_text("*\n", encoding="utf-8")


def _write_whole(path: Path, data: bytes) -> None:
    _remove_abandoned(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_PART}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files of a process that was killed while saving."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            path = folder / name
            if _PARTIAL.fullmatch(name):
                with contextlib.suppress(OSError):
                    if time.time() - path.lstat().st_mtime > _ABANDONED_AFTER_S:
                        path.unlink()


def _remove_old(folder: Path, stem: str) -> None:
    try:
        present = sorted(profiles_in(folder, stem), key=_saved_at)
        shown = [path for path in present if not path.name.endswith(_ASIDE)][-1:]
        for path in present[:-_KEPT_PER_SCRIPT]:
            # Many profiles that were set aside must not displace the one that is shown.
            if path in shown:
                continue
            _keep_row(path, folder, stem)
            path.unlink(missing_ok=True)
            path.with_name(path.name.removesuffix(SUFFIX) + ".html").unlink(missing_ok=True)
    except OSError:
        return


_ROWS = ".history.jsonl"
"""Suffix of the file with the rows of profiles that were removed."""
_MOST_ROWS_BYTES = 32 << 20


def _keep_row(path: Path, folder: Path, stem: str) -> None:
    """Append the row of a profile that is about to be removed."""
    try:
        row = msgspec.json.encode(history_row(load(path)))
    except UsageError:
        return
    rows = folder / f"{stem}{_ROWS}"
    if not rows.exists() or rows.stat().st_size + len(row) < _MOST_ROWS_BYTES:
        # A link there may lead anywhere.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(rows, flags, 0o600), "ab") as file:
            file.write(row + b"\n")


def history(script: Path) -> tuple[HistoryRow, ...]:
    """All profiles of a script in brief, oldest first: those that are saved, and rows of those that were removed."""
    found: dict[str, HistoryRow] = {}
    for folder in _folders(script.absolute()):
        try:
            data = read_bounded(folder / f"{_stem(script)}{_ROWS}", _MOST_ROWS_BYTES)
        except OSError:
            continue
        for line in data.splitlines():
            with contextlib.suppress(*_UNREADABLE):
                row = msgspec.json.decode(line, type=HistoryRow)
                found[row.id] = row
    for path in saved(script):
        with contextlib.suppress(UsageError):
            row = history_row(load(path, script))
            found[row.id] = row
    return tuple(sorted(found.values(), key=lambda row: datetime.fromisoformat(row.created)))
