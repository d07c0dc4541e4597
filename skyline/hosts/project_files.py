"""The files of a project that are sent to a host: those that git does not ignore, up to a limit."""

from __future__ import annotations

import os
import stat
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import IO

from skyline import units
from skyline.errors import UsageError
from skyline.hosts.messages import PART_BYTES, ProjectFile

LARGEST_BYTES = 500_000_000
"""Largest project in bytes. Sources take a few MB. Larger amounts are data, which belong on the host itself."""
MOST_FILES = 50_000
"""Largest number of files of a project. Each is read and hashed on both machines."""
_LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".skyline", "__pycache__", "node_modules", ".tox", ".nox"}
    | {".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"}
)
"""Folders that contain no source of the project."""
_NAMED = 3
_NONE: Mapping[str, bytes] = {}


def project_files(
    root: Path, script: Path, *, texts: Mapping[str, bytes] = _NONE, largest_bytes: int = LARGEST_BYTES
) -> tuple[ProjectFile, ...]:
    """The files below ``root`` with their hashes. In a git repository: those that are not ignored, and the script.

    ``texts`` maps paths relative to ``root`` to contents that differ from the disk.

    Raises:
        UsageError: they are too many or too large, or one cannot be read.
    """
    paths = {path for path in _listed(root) if not _LEFT_OUT & set(path.parts)}
    paths.add(script.relative_to(root))
    sizes: dict[Path, int] = {}
    for path in sorted(paths):
        try:
            found = (root / path).lstat()
        except OSError:
            continue  # git also lists deleted files.
        if stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
            sizes[path] = found.st_size
    _check_size(root, sizes, largest_bytes)
    return tuple(_described(root, path, texts) for path in sizes)


def _listed(root: Path) -> Iterable[Path]:
    command = ("git", "-c", "core.fsmonitor=false", "-C", str(root))
    try:
        told = subprocess.run(
            [*command, "ls-files", "-coz", "--exclude-standard"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError:
        return _walked(root)
    if told.returncode != 0:
        return _walked(root)
    return _with_submodules(root, (Path(os.fsdecode(name)) for name in told.stdout.split(b"\0") if name))


def _with_submodules(root: Path, paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        inside = root / path
        if inside.is_dir() and not inside.is_symlink():
            # For a nested repository, git lists only the folder.
            yield from (path / one for one in (_listed(inside) if (inside / ".git").exists() else ()))
        else:
            yield path


def _walked(root: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(root):
        here = Path(folder)
        links = [name for name in names if (here / name).is_symlink()]
        names[:] = [
            name
            for name in names
            if name not in _LEFT_OUT and name not in links and not (here / name / "pyvenv.cfg").exists()
        ]
        yield from ((here / name).relative_to(root) for name in (*files, *links))


def _check_size(root: Path, sizes: dict[Path, int], largest_bytes: int) -> None:
    total = sum(sizes.values())
    if total <= largest_bytes and len(sizes) <= MOST_FILES:
        return
    folders: Counter[str] = Counter()
    for path, size in sizes.items():
        folders[path.parts[0] + "/" * (len(path.parts) > 1)] += size
    largest = ", ".join(f"{name} {units.format_bytes(size)}" for name, size in folders.most_common(_NAMED))
    raise UsageError(
        f"The project {root} has {units.format_bytes(total)} in {len(sizes):,} files; a host gets at most "
        f"{units.format_bytes(largest_bytes)} in {MOST_FILES:,}. Largest: {largest}",
        hint="Have git ignore the data (git init, .gitignore), and place it in the copy on the host or under an "
        "absolute path there.",
    )


def _described(root: Path, path: Path, texts: Mapping[str, bytes]) -> ProjectFile:
    name = path.as_posix()
    if not name.isprintable():
        raise UsageError(
            f"The name {name!r} in {root} cannot be sent", hint="Rename the file, or have git ignore it."
        )
    place = root / path
    try:
        if place.is_symlink():
            return ProjectFile(name, link=os.readlink(place))
        with place.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = BytesIO(texts[name]) if name in texts else file
            return ProjectFile(name, hashed(data), executable=bool(mode & stat.S_IXUSR))
    except OSError as error:
        raise UsageError(
            f"{place} cannot be read: {error.strerror or error}",
            hint="Have git ignore it, or make it readable.",
        ) from error


def hashed(file: IO[bytes]) -> str:
    """The SHA-256 of a file in hexadecimal digits."""
    digest = sha256()
    while part := file.read(PART_BYTES):
        digest.update(part)
    return digest.hexdigest()
