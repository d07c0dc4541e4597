"""Reports of saved profiles in the user's cache, so that a profile is analysed once.

A report is used again while the profile, the code of Skyline and all files that the report depends on stay the same.
Other packages can add what-ifs, and their code is not compared: while such a package is installed, the cache is off.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import msgspec

from skyline.bounded_read import LARGEST_TEXT_BYTES, read_bounded
from skyline.entry_points import entry_points
from skyline.lazy_dataclass import dataclass
from skyline.report.schema import ProfileReport, WhatIfReport
from skyline.whole_file import write_whole

_MOST_KEPT = 40
_GROUPS = ("skyline.whatifs", "skyline.rewrites", "skyline.gpus", "skyline.predictors")
_PACKAGES = ("skyline", "skyline_predictors")
"""The packages whose code determines a report. They declare additions to the groups themselves."""
_ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class CachedReport:
    """A report, the answers to one question about it, and the sources that had changed since the profile was made.

    For a question about named changes, the report has only its head.
    """

    report: ProfileReport
    answers: WhatIfReport
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Kept:
    """The content of a file. ``depends_on`` has the state of each file that the report was made from."""

    depends_on: dict[str, str]
    cached: CachedReport


class ReportCache:
    """The cached report of one saved profile about one question.

    ``folder`` is that of the script, which the paths in a report refer to. ``question`` are the changes that the
    answers are about; empty: all. ``depends_on`` are files, besides the profile, that every report depends on.
    """

    def __init__(
        self, profile: Path, folder: Path, question: Sequence[str] = (), depends_on: Iterable[Path] = ()
    ) -> None:
        self._path: Path | None = None
        with suppress(OSError):
            if not _has_additions():
                known = [_state(path) for path in (profile, *depends_on)]
                parts = (os.path.abspath(folder), sys.version, *_code(), *question, *known)
                name = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
                self._path = _folder() / f"{name[:32]}.json"

    def load(self) -> CachedReport | None:
        """The cached report. None if there is none, or if a file that it depends on has changed."""
        if self._path is None:
            return None
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=_Kept)
            same = all(_state(Path(path)) == state for path, state in kept.depends_on.items())
        except (OSError, ValueError):
            return None
        return kept.cached if same else None

    def keep(self, cached: CachedReport, depends_on: Iterable[Path]) -> None:
        """Write the report, made from these files, if the cache can be written. The newest 40 reports remain."""
        if self._path is None:
            return
        with suppress(OSError):
            kept = _Kept({os.path.abspath(path): _state(path) for path in depends_on}, cached)
            # A report contains lines of the user's code.
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(self._path, msgspec.json.encode(kept))
            found = sorted(self._path.parent.glob("*.json"), key=lambda one: one.stat().st_mtime)
            for old in found[:-_MOST_KEPT]:
                old.unlink()


def _folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "skyline" / "reports"


def _has_additions() -> bool:
    return any(
        entry.value.partition(":")[0].partition(".")[0] not in _PACKAGES
        for group in _GROUPS
        for entry in entry_points(group)
    )


def _state(path: Path) -> str:
    """A digest of the content of a file, or of the names in a folder.

    Raises OSError if it cannot be read, or is larger than 32 MB.
    """
    try:
        content = read_bounded(path, LARGEST_TEXT_BYTES)
    except IsADirectoryError:
        content = "\0".join(sorted(os.listdir(path))).encode("utf-8", "surrogatepass")
    except (FileNotFoundError, NotADirectoryError):
        return _ABSENT
    return hashlib.sha256(content).hexdigest()


def _code() -> Iterator[str]:
    """The files of Skyline's packages with their sizes and times of change."""
    for package in _PACKAGES:
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            yield from _files_in(folder)


def _files_in(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files_in(entry.path)
            else:
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
