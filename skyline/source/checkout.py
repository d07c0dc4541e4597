"""The branch or commit of the git repository around a file, read from its files without the program git."""

from __future__ import annotations

import os
import re
from pathlib import Path

from skyline.bounded_read import open_regular
from skyline.lazy_dataclass import dataclass

# No branch name starts with a dot. Other reference formats put `.invalid` into HEAD.
_BRANCH = re.compile(r"ref: refs/heads/(?P<branch>(?!\.)[^\x00-\x20~^:?*\[\\\x7f]+)\s*")
_COMMIT = re.compile(r"(?P<commit>[0-9a-f]{40}(?:[0-9a-f]{24})?)\s*")
_SHORT_COMMIT = 9
_MOST_BYTES = 4096
_INDEX = "index"
_CHECKSUM_BYTES = 20
_MARKS = ("HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")
# Lock files that exist while git writes. `git status` takes the first one, too.
_LOCKS = ("index.lock", "HEAD.lock")
# Folders of a rebase in progress.
_REBASES = ("rebase-merge", "rebase-apply")

Stamp = tuple[int, int] | bytes | None


@dataclass(frozen=True, slots=True)
class Checkout:
    """A branch, or a commit if no branch is checked out; both are empty outside git."""

    branch: str = ""
    commit: str = ""

    def __str__(self) -> str:
        if self.branch:
            return f"branch {self.branch}"
        return f"commit {self.commit[:_SHORT_COMMIT]}" if self.commit else "no git branch"


def checkout_at(path: str) -> Checkout:
    """The checkout of the repository around a file or folder."""
    folder = git_folder(path)
    head = _read(folder / "HEAD") if folder is not None else ""
    branch, commit = _BRANCH.fullmatch(head), _COMMIT.fullmatch(head)
    return Checkout(branch["branch"] if branch else "", commit["commit"] if commit else "")


def git_folder(path: str) -> Path | None:
    """The git folder of the repository around a file or folder; in a worktree, the folder of that worktree."""
    for folder in (Path(path), *Path(path).parents):
        found = folder / ".git"
        if found.is_dir():
            return found
        if found.is_file():
            # A worktree or a submodule: a file gives the folder's location relative to this one.
            named = re.fullmatch(r"gitdir: ([^\n]+)\s*", _read(found))
            elsewhere = folder / named[1] if named else None
            return Path(os.path.normpath(elsewhere)) if elsewhere is not None and elsewhere.is_dir() else None
    return None


def marks(path: str) -> tuple[str, ...]:
    """Files of which git writes at least one with every change; empty outside git."""
    folder = git_folder(path)
    if folder is None:
        return ()
    return tuple(str(folder.resolve() / name) for name in (_INDEX, *_MARKS))


def stamps(path: str) -> tuple[Stamp, ...]:
    """A value that changes when git writes files; empty outside git."""
    folder = git_folder(path)
    if folder is None:
        return ()
    return _index_stamp(folder / _INDEX), *(_stamp(folder / name) for name in (*_MARKS, *_REBASES))


def is_writing(path: str) -> bool:
    """True while git locks the repository, so that further changes may follow."""
    folder = git_folder(path)
    return folder is not None and any(os.path.lexists(folder / name) for name in _LOCKS)


def _index_stamp(path: Path) -> Stamp:
    """Based on the content: `git status` rewrites the index even without changes."""
    try:
        with open_regular(path) as file:
            file.seek(-_CHECKSUM_BYTES, os.SEEK_END)
            checksum = file.read()
    except OSError:
        return None
    # Git can be configured to omit the checksum.
    return checksum if any(checksum) else _stamp(path)


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _read(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return file.read(_MOST_BYTES).decode("utf-8")
    except (OSError, UnicodeError):
        return ""
