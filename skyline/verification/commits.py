"""The commits of the sources of saved profiles, found by the contents of the files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.trace.history_row import HistoryRow
from skyline.verification.base_revision import run_git

_MOST_FILES = 500
_MOST_COMMITS = 5000
_SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit; ``date`` is ISO 8601."""

    id: str
    date: str
    subject: str


@dataclass(frozen=True, slots=True)
class ProfiledCommit:
    """The last commit in a profile. ``changed`` is true if some source is in no commit up to that time."""

    commit: Commit
    changed: bool


def commits_of(script: Path, rows: Sequence[HistoryRow]) -> Mapping[str, ProfiledCommit]:
    """The commit of each row, by the row's id. Rows whose script is in no commit are missing. Empty without git.

    A state of the sources belongs to the latest commit before the profile that changed one of its files to
    that text. Branches, rebases and reverts do not affect it.
    """
    folder = script.resolve().parent
    paths = dict.fromkeys(path for row in rows for path, _ in row.sources if not path.startswith(os.pardir))
    try:
        log = run_git(
            folder,
            "log",
            "--all",
            f"--max-count={_MOST_COMMITS}",
            "--relative",
            "--raw",
            "--no-abbrev",
            "--no-renames",
            f"--format={_SEPARATOR}%H{_SEPARATOR}%cI{_SEPARATOR}%s",
            "--",
            *list(paths)[:_MOST_FILES],
        )
    except UsageError:
        return {}
    if log.returncode:
        return {}
    brought = _brought(log.stdout.splitlines())
    tracked = {path for path, _ in brought}
    found: dict[str, ProfiledCommit] = {}
    for row in rows:
        own = [one for one in row.sources if one[0] in tracked]
        latest = [_latest(brought.get(one, ()), row.created) for one in own]
        known = [one for one in latest if one is not None]
        if known:
            found[row.id] = ProfiledCommit(max(known, key=_moment), changed=len(known) < len(own))
    return found


def _brought(lines: Iterable[str]) -> Mapping[tuple[str, str], list[Commit]]:
    """The commits that gave a file a certain content, by path and blob."""
    found: dict[tuple[str, str], list[Commit]] = {}
    commit: Commit | None = None
    for line in lines:
        if line.startswith(_SEPARATOR):
            _, name, date, subject = line.split(_SEPARATOR, 3)
            commit = Commit(name, date, subject)
        elif line.startswith(":") and commit is not None:
            facts, _, path = line.partition("\t")
            found.setdefault((path, facts.split()[3]), []).append(commit)
    return found


def _latest(commits: Iterable[Commit], before: str) -> Commit | None:
    """The latest commit up to a moment. The first commit if all are later, as after a rebase."""
    ordered = sorted(commits, key=_moment)
    earlier = [one for one in ordered if _moment(one) <= datetime.fromisoformat(before)]
    return earlier[-1] if earlier else next(iter(ordered), None)


def _moment(commit: Commit) -> datetime:
    return datetime.fromisoformat(commit.date.replace("Z", "+00:00"))
