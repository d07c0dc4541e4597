"""A script in a git revision, checked out into a temporary worktree."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass

_SHALLOW = "In CI, fetch the history first: fetch-depth: 0 of actions/checkout, or git fetch origin main."
_LONGEST_S = 120.0
# A repository's hooks are programs of its authors. A checkout for a measurement must not run them.
_GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false")


@dataclass(frozen=True, slots=True)
class BaseRevision:
    """The script in a checkout of the revision.

    ``commit`` is the short hash, ``root`` the folder of the checkout, ``repository`` the folder of the working tree.
    """

    script: Path
    commit: str
    root: Path
    repository: Path

    def shared(self, modules: Sequence[str]) -> tuple[str, ...]:
        """Modules of a run of ``script`` that came from the working tree, not from the revision."""
        own, tree = f"{self.root.resolve()}{os.sep}", f"{self.repository.resolve()}{os.sep}"
        return tuple(one for one in modules if one.startswith(tree) and not one.startswith(own))


@contextmanager
def checked_out(script: Path, revision: str) -> Generator[BaseRevision, None, None]:
    """The script in a revision of its repository, while the context lasts.

    Raises:
        UsageError: git is missing, the script is in no repository, or the revision or the script in it does not exist.
    """
    absolute = script.resolve()
    repository = Path(
        _git(absolute.parent, "rev-parse", "--show-toplevel", hint="The base is a git revision.")
    )
    commit = _git(
        repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}",
        words_of_failure=f"{revision} is not a revision of {repository}", hint=_SHALLOW,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="skyline-base-") as folder:
        root = Path(folder) / "checkout"
        _git(repository, "worktree", "add", "--detach", "--quiet", str(root), commit, hint="")
        try:
            old = root / absolute.relative_to(repository.resolve())
            if not old.is_file():
                raise UsageError(
                    f"{script} does not exist in {revision}: there is nothing to compare with",
                    hint="Omit the base to check the other limits, or name a later revision.",
                )
            yield BaseRevision(old, commit[:9], root, repository)
        finally:
            run_git(repository, "worktree", "remove", "--force", str(root))


def _git(folder: Path, *words: str, hint: str, words_of_failure: str = "") -> str:
    done = run_git(folder, *words)
    if done.returncode:
        said = words_of_failure or f"git {words[0]}: {done.stderr.strip() or 'failed'}"
        raise UsageError(said, hint=hint)
    return done.stdout.strip()


def run_git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a git command in a folder, without hooks and questions. Raises UsageError if git is missing or hangs."""
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        return subprocess.run(
            [*_GIT, "-C", str(folder), *words],
            capture_output=True,
            text=True,
            env=environment,
            timeout=_LONGEST_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise UsageError("git is not installed", hint="Install git, or omit the base.") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"git {words[0]} took longer than {_LONGEST_S:.0f} s") from None
