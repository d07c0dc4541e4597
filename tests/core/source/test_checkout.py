"""The branch around a file, and whether git has written: against repositories that git itself makes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from skyline.source.checkout import Checkout, checkout_at, git_folder, is_writing, marks, stamps

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", *IDENTITY, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two branches with different scripts; ``main`` is checked out."""
    root = tmp_path.resolve() / "project"
    (root / "src").mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    script = root / "src" / "train.py"
    script.write_text("batch = 1\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    git(root, "switch", "-qc", "team/feature-2")
    script.write_text("batch = 22\n")
    git(root, "commit", "-qam", "second")
    git(root, "switch", "-q", "main")
    return root


def test_branches_and_commits_are_told_apart(repository: Path) -> None:
    script = str(repository / "src" / "train.py")
    assert checkout_at(script) == Checkout("main")
    git(repository, "switch", "-q", "team/feature-2")
    assert checkout_at(script) == Checkout("team/feature-2")
    assert str(checkout_at(script)) == "branch team/feature-2"
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "switch", "-q", "--detach")
    assert checkout_at(script) == Checkout(commit=commit)
    assert str(checkout_at(script)) == f"commit {commit[:9]}"
    assert checkout_at(str(repository)) == Checkout(commit=commit), "a folder has one, too"


def test_a_branch_without_a_commit_has_a_name(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "new")
    assert checkout_at(str(tmp_path / "train.py")) == Checkout("new")


def test_a_worktree_has_a_state_of_its_own(repository: Path) -> None:
    other = repository.with_name("other")
    git(repository, "worktree", "add", "-q", str(other), "team/feature-2")
    script = str(other / "src" / "train.py")
    assert checkout_at(script) == Checkout("team/feature-2")
    assert checkout_at(str(repository / "src" / "train.py")) == Checkout("main")
    before, before_in_main = stamps(script), stamps(str(repository))
    (other / "src" / "train.py").write_text("batch = 333\n")
    git(other, "restore", "src/train.py")
    assert stamps(script) != before
    assert stamps(str(repository)) == before_in_main


@pytest.mark.parametrize(
    "commands",
    [
        [("switch", "team/feature-2")],
        [("checkout", "team/feature-2", "--", "src/train.py")],
        [("reset", "--hard", "team/feature-2")],
        [("merge", "-q", "team/feature-2")],
        [("rebase", "team/feature-2")],
        [("cherry-pick", "team/feature-2")],
    ],
    ids=lambda commands: commands[0][0],
)
def test_git_that_writes_a_file_leaves_its_mark(repository: Path, commands: list[tuple[str, ...]]) -> None:
    script = repository / "src" / "train.py"
    before, text = stamps(str(script)), script.read_text()
    for command in commands:
        git(repository, *command)
    assert script.read_text() != text
    assert stamps(str(script)) != before
    assert not is_writing(str(script))


def test_taking_back_and_stashing_leave_their_marks(repository: Path) -> None:
    script = repository / "src" / "train.py"
    for command in (("restore", "src/train.py"), ("stash",), ("stash", "pop")):
        if command != ("stash", "pop"):
            script.write_text("batch = 333\n")
        before = stamps(str(script))
        git(repository, *command)
        assert stamps(str(script)) != before, command


def test_a_person_who_writes_and_git_that_looks_leave_none(repository: Path) -> None:
    script = repository / "src" / "train.py"
    before = stamps(str(script))
    script.write_text("batch = 333\n")
    git(repository, "status", "--short")
    git(repository, "diff")
    # Later than the second of the checkout, a look has git write its index again, with the same content.
    index = repository / ".git" / "index"
    index.write_bytes(index.read_bytes())
    os.utime(index, (1, 1))
    assert stamps(str(script)) == before


def test_a_lock_tells_that_git_is_writing(repository: Path) -> None:
    script = str(repository / "src" / "train.py")
    assert not is_writing(script)
    (repository / ".git" / "index.lock").touch()
    assert is_writing(script)


def test_outside_of_git_there_is_nothing(tmp_path: Path) -> None:
    # Whatever the folder of temporary files may be in.
    if git_folder(str(tmp_path)) is not None:
        pytest.skip("the folder of temporary files is in a repository")
    script = str(tmp_path / "train.py")
    assert checkout_at(script) == Checkout()
    assert (marks(script), stamps(script), is_writing(script)) == ((), (), False)


@pytest.mark.parametrize(
    "head",
    [
        "",
        "ref: refs/heads/\n",
        "ref: refs/heads/[x](command:y)\n",
        "ref: refs/heads/a b\n",
        "ref: refs/heads/.invalid\n",
        "nonsense",
        "\xff" * 9,
    ],
)
def test_a_head_that_git_would_not_write_names_nothing(tmp_path: Path, head: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(head, encoding="latin-1")
    assert checkout_at(str(tmp_path / "train.py")) == Checkout()


def test_a_repository_that_is_elsewhere_and_gone_is_none(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: ../gone\n")
    assert git_folder(str(tmp_path / "train.py")) is None
