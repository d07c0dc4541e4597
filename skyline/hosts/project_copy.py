"""The copy of a project on the host that profiles it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from skyline.errors import UsageError
from skyline.hosts.messages import PART_BYTES, ProjectFile
from skyline.hosts.project_files import hashed

_NAME = re.compile(r"[\w][\w.-]*")


class ProjectCopy:
    """A folder in the user's cache with the files of a project, and any other files that are put there.

    Only files that came with the project are deleted with it. Other data in the folder remains.
    """

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not the name of a project")
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        # Links are resolved, because the script's paths begin with this path.
        self.root = Path(os.path.realpath(cache / "skyline" / "projects" / name))
        self._list = self.root.with_name(f"{name}.json")

    def prepare(self, files: Sequence[ProjectFile]) -> tuple[int, ...]:
        """Delete files that the project no longer has, set links, and return the indexes of files to be written.

        Raises UsageError for a path that leaves the folder, OSError if the file system refuses.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        before = self._known()
        now = {file.path for file in files}
        for path in sorted(before - now):
            self._delete(path)
        self._list.write_bytes(msgspec.json.encode(sorted(now)))
        wanted: list[int] = []
        for index, file in enumerate(files):
            place = self._place(file.path)
            if file.link:
                self._link(place, file.link, ours=file.path in before)
            elif not _is_same(place, file.sha256):
                wanted.append(index)
            else:
                _set_mode(place, file)
        return tuple(wanted)

    def write(self, file: ProjectFile, stream: IO[bytes], size: int) -> None:
        """Write a file with contents from the stream. Raises EOFError if the stream ends early."""
        place = self._place(file.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        part_file = place.with_name(f".{place.name}.{os.getpid()}.part")
        try:
            with part_file.open("wb") as out:
                while size:
                    part = stream.read(min(size, PART_BYTES))
                    if not part:
                        raise EOFError
                    out.write(part)
                    size -= len(part)
            _set_mode(part_file, file)
            part_file.replace(place)
        finally:
            part_file.unlink(missing_ok=True)

    def directory(self, relative: str) -> Path:
        """The working directory of a run. It is created if the project has no files in it."""
        place = self._place(relative) if relative else self.root
        place.mkdir(parents=True, exist_ok=True)
        return place

    def _known(self) -> set[str]:
        try:
            return set(msgspec.json.decode(self._list.read_bytes(), type=list[str]))
        except (OSError, msgspec.DecodeError):
            return set()

    def _place(self, relative: str) -> Path:
        path = PurePosixPath(relative)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise UsageError(f"{relative!r} is not a path of a project")
        place = self.root / path
        if os.path.commonpath((self.root, os.path.realpath(place.parent))) != str(self.root):
            raise UsageError(
                f"{place.parent} leads out of the copy of the project, which has the file {relative}",
                hint="Remove that link on the host, or have git ignore the file.",
            )
        return place

    def _delete(self, relative: str) -> None:
        try:
            place = self._place(relative)
        except UsageError:
            return  # A link has replaced its folder.
        with contextlib.suppress(OSError):
            place.unlink()
        for folder in _folders_up_to(self.root, place):
            try:
                folder.rmdir()
            except OSError:
                return

    @staticmethod
    def _link(place: Path, target: str, *, ours: bool) -> None:
        if ours and (place.is_symlink() or place.is_file()):
            place.unlink()
        # Data of the host itself takes precedence.
        if not os.path.lexists(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)


def _folders_up_to(root: Path, place: Path) -> Iterable[Path]:
    return (folder for folder in place.parents if root in folder.parents)


def _is_same(place: Path, sha256: str) -> bool:
    if place.is_symlink() or not place.is_file():
        return False
    with place.open("rb") as file:
        return hashed(file) == sha256


def _set_mode(place: Path, file: ProjectFile) -> None:
    place.chmod(0o700 if file.executable else 0o600)
