"""Moves downloads of a run out of the scratch folder, so that nothing is downloaded twice."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Collection
from pathlib import Path

from skyline.capture.side_effects import logged
from skyline.lazy_dataclass import dataclass

_LOG_NAME = "fetched.jsonl"
_TREE = "tree"
_NEVER_WITHIN = frozenset((".git", ".ssh", "site-packages", "dist-packages"))
_SYSTEM = ("/bin/", "/boot/", "/etc/", "/lib/", "/lib64/", "/sbin/", "/usr/")


@dataclass(frozen=True, slots=True)
class _DownloadRow:
    path: str
    fetched: bool


class Downloads:
    """The downloaded files of one run; ``kept`` are the paths of files that were moved to their final place.

    The run itself reports its downloads, and is not trusted: only new files are created. They are never executable,
    never links, and never configuration of the system or of the user's programs.
    """

    def __init__(self, scratch: Path, working_directory: Path) -> None:
        self._scratch = scratch.resolve()
        self._near = str(working_directory.resolve()) + os.sep
        self.kept: set[str] = set()

    def keep(self, open_files: Callable[[], Collection[str]]) -> None:
        """Move complete files to their place; ``open_files`` returns the files that the run may still be writing."""
        wanted = self._fetched()
        if not wanted:
            return
        busy = open_files()
        for path in wanted:
            source = self._scratch / _TREE / path.lstrip(os.sep)
            if source.is_dir() and not source.is_symlink():
                for folder, _, names in os.walk(source):
                    for name in names:
                        below = Path(folder, name)
                        self._keep(below, path + str(below)[len(str(source)) :], busy)
            else:
                self._keep(source, path, busy)

    def _fetched(self) -> list[str]:
        found = {row.path: row.fetched for row in logged(self._scratch / _LOG_NAME, _DownloadRow)}
        return [path for path, fetched in found.items() if fetched and path not in self.kept]

    def _keep(self, source: Path, path: str, busy: Collection[str]) -> None:
        target = Path(path)
        if str(source) in busy or not self._may_be_made(path):
            return
        try:
            # A link in the path would lead out of the scratch folder, or to another place than the checked one.
            if not stat.S_ISREG(source.lstat().st_mode) or source.resolve() != source:
                return
            if target.parent.resolve() != target.parent or os.path.lexists(target):
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            source.chmod(stat.S_IMODE(source.stat().st_mode) & 0o666)
            _move(source, target)
        except OSError:
            return
        self.kept.add(path)

    def _may_be_made(self, path: str) -> bool:
        if not os.path.isabs(path) or os.path.normpath(path) != path:
            return False
        if path.startswith(_SYSTEM) or not _NEVER_WITHIN.isdisjoint(Path(path).parts):
            return False
        home = str(Path.home()) + os.sep
        return path.startswith(self._near) or not path.startswith(home + ".")


def _move(source: Path, target: Path) -> None:
    """Move a file like ``rename``, also to another disk, but never replace an existing file."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        with target.open("xb") as new:
            try:
                with source.open("rb") as old:
                    shutil.copyfileobj(old, new, 1 << 20)
            except OSError:
                target.unlink()
                raise
        shutil.copystat(source, target)
    source.unlink()
