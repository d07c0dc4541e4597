"""Profiles on disk: saved beside the script, loaded again, and found by script."""

from __future__ import annotations

import gzip
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from skyline.errors import UsageError
from skyline.trace.profile import CAPTURE_SCHEMA, Profile

FOLDER = ".skyline"
SUFFIX = ".profile.json.gz"
_ASIDE = f".aside{SUFFIX}"
"""Of measurements that are kept and not shown."""
_KEPT_PER_SCRIPT = 20


@dataclass(frozen=True, slots=True)
class _Header:
    schema: str = ""


def save(profile: Profile, directory: Path | None = None, *, aside: bool = False) -> Path:
    """Write a profile; the file appears whole or not at all.

    Goes to ``directory``, or to ``.skyline`` beside the script; where that cannot be written, to the person's
    cache folder. The oldest profiles of a script beyond the last twenty are removed. Raises UsageError where
    nothing can be written. One that is put ``aside`` is never the latest.
    """
    data = gzip.compress(msgspec.json.encode(profile), compresslevel=3)
    tried: list[str] = []
    for folder in [directory] if directory is not None else _folders(Path(profile.script)):
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
        _remove_old(folder, Path(profile.script).stem)
        return path
    raise UsageError(
        f"The profile could not be saved ({'; '.join(tried)})", hint="Name a folder with --output-dir."
    )


def load(path: Path) -> Profile:
    """A saved profile. Raises UsageError for a file that is none, is damaged or of another version."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        header = msgspec.json.decode(data, type=_Header)
    except (OSError, EOFError, msgspec.DecodeError, ValueError) as error:
        raise UsageError(
            f"{path} is damaged or no Skyline profile: {error}", hint="Profile the script again."
        ) from error
    if header.schema != CAPTURE_SCHEMA:
        found = header.schema or "no schema"
        raise UsageError(
            f"{path} is not a profile of this version ({found}, expected {CAPTURE_SCHEMA})",
            hint="Profile the script again.",
        )
    try:
        return msgspec.json.decode(data, type=Profile)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is damaged: {error}", hint="Profile the script again.") from error


def name_of(script: Path, profile_id: str) -> str:
    """The name of the file that holds a profile of a script."""
    return f"{script.stem}-{profile_id}{SUFFIX}"


def latest(script: Path) -> Path | None:
    """The newest saved profile of a script that was not put aside, if there is one."""
    return next((path for path in saved(script) if not path.name.endswith(_ASIDE)), None)


def saved(script: Path) -> tuple[Path, ...]:
    """Every saved profile of a script, newest first."""
    found: list[Path] = []
    for folder in _folders(script.absolute()):
        try:
            found += folder.glob(f"{script.stem}-*{SUFFIX}")
        except OSError:
            continue
    return tuple(sorted(found, key=lambda path: path.stat().st_mtime, reverse=True))


def _folders(script: Path) -> list[Path]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skyline"
    # One folder a script directory, so that two scripts called train.py stay apart.
    place = hashlib.sha256(str(script.parent).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return [script.parent / FOLDER, cache / place]


def _keep_out_of_version_control(folder: Path) -> None:
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


def _write_whole(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _remove_old(folder: Path, stem: str) -> None:
    try:
        profiles = sorted(folder.glob(f"{stem}-*{SUFFIX}"), key=lambda path: path.stat().st_mtime)
        for path in profiles[:-_KEPT_PER_SCRIPT]:
            path.unlink(missing_ok=True)
            path.with_name(path.name.removesuffix(SUFFIX) + ".html").unlink(missing_ok=True)
    except OSError:
        return
