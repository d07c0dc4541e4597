"""Stores the files that a change replaced, so that it can be undone byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from skyline.bounded_read import read_unpacked
from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass

_LARGEST_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class ReplacedFile:
    """A changed file: its bytes before the change, and the digest of its bytes after it."""

    path: str
    before: bytes
    after_sha256: str

    def check(self) -> None:
        """Raises UsageError if the file has changed since the change was made."""
        if _digest(self.path) != self.after_sha256:
            raise UsageError(
                f"{self.path} was changed after skyline tune --apply: it is not restored",
                hint="Nothing was changed. Edit the file by hand.",
            )


def undo_path(profile: Path, script: str) -> Path:
    """The file with the last change of a script, in the folder of its profiles."""
    return profile.with_name(f"{Path(script).name}.undo.json")


def encoded_undo(before: Mapping[str, bytes]) -> bytes:
    """The content of the file, computed after the files are changed."""
    files = [ReplacedFile(path, data, _digest(path)) for path, data in before.items()]
    return msgspec.json.encode(files)


def load_undo(path: Path) -> tuple[ReplacedFile, ...]:
    """The files that were replaced. Raises UsageError if there are none, or if the file is damaged."""
    try:
        return msgspec.json.decode(read_unpacked(path, _LARGEST_BYTES), type=tuple[ReplacedFile, ...])
    except FileNotFoundError:
        raise UsageError("There is no change of skyline tune --apply to undo") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""
