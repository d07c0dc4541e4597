"""Public repositories at their pinned commits, taken from existing checkouts or fetched."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_FETCH_TIMEOUT_S = 300.0


class NotFetched(Exception):
    """A repository cannot be fetched. The message gives the reason."""


def checkout(repository: str, commit: str, checkouts: Path, mirror: Path | None) -> Path:
    """The folder of the repository's files in ``checkouts``, taken from the folder of bare clones or from GitHub."""
    name = repository.replace("/", "+")
    target = checkouts / name
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{name}.partial")
    if bare := _bare_clone(mirror, name) if mirror else None:
        _write_tree(bare, commit, partial)
    else:
        _fetch(repository, commit, partial)
    partial.rename(target)
    return target


def _bare_clone(mirror: Path, name: str) -> Path | None:
    places = (mirror / name / "repo" / ".git", mirror / name / "repo", mirror / f"{name}.git", mirror / name)
    return next((place for place in places if (place / "objects").is_dir()), None)


def _write_tree(bare: Path, commit: str, target: Path) -> None:
    """Write the files of a commit. Files without content, as in partial clones, are left out."""
    git = ["git", f"--git-dir={bare}"]
    listed = subprocess.run([*git, "ls-tree", "-r", "-z", commit], capture_output=True, check=False)
    if listed.returncode:
        raise NotFetched(f"the clone in {bare.parent} lacks commit {commit[:10]}")
    files: list[tuple[str, str]] = []
    for line in filter(None, listed.stdout.decode().split("\0")):
        mode, kind, digest, path = *line.split("\t")[0].split(), line.partition("\t")[2]
        if kind == "blob" and mode != "120000":
            files.append((digest, path))
    asked = "\n".join(digest for digest, _ in files).encode() + b"\n"
    contents = subprocess.run(
        [*git, "cat-file", "--batch"], input=asked, capture_output=True, check=True
    ).stdout
    position = 0
    for _, path in files:
        end = contents.index(b"\n", position)
        head = contents[position:end].split()
        position = end + 1
        if head[-1] == b"missing":
            continue
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        size = int(head[2])
        file.write_bytes(contents[position : position + size])
        position += size + 1


def _fetch(repository: str, commit: str, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    commands = (
        ["init", "--quiet"],
        ["fetch", "--quiet", "--depth", "1", f"https://github.com/{repository}.git", commit],
        ["checkout", "--quiet", "FETCH_HEAD"],
    )
    for command in commands:
        try:
            subprocess.run(
                ["git", "-C", str(target), *command],
                check=True,
                capture_output=True,
                timeout=_FETCH_TIMEOUT_S,
                env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError):
            raise NotFetched("the repository could not be fetched") from None
