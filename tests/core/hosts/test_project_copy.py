"""The files of a project on their way to a host, and the copy there."""

from __future__ import annotations

import argparse
import io
import subprocess
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from skyline.cli.command_line import without
from skyline.errors import UsageError
from skyline.hosts import project_files as listing
from skyline.hosts.messages import ProjectFile
from skyline.hosts.project_copy import ProjectCopy
from skyline.hosts.project_files import project_files


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in ("train.py", "src/model.py", ".skyline/train.gz", "__pycache__/train.pyc", "data/set.bin"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "env").mkdir()
    (root / "env" / "pyvenv.cfg").write_text("")
    (root / "latest.py").symlink_to("train.py")
    return root


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectCopy:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return ProjectCopy("project-1")


def sent(root: Path) -> tuple[ProjectFile, ...]:
    return project_files(root, root / "train.py")


def names(files: Sequence[ProjectFile]) -> list[str]:
    return [file.path for file in files]


def taken(copy: ProjectCopy, root: Path) -> list[str]:
    """Bring the copy up to date; the files that were written."""
    files = sent(root)
    wanted = copy.prepare(files)
    for index in wanted:
        data = (root / files[index].path).read_bytes()
        copy.write(files[index], io.BytesIO(data), len(data))
    return [files[index].path for index in wanted]


def test_folders_without_sources_stay_here(project: Path) -> None:
    assert names(sent(project)) == ["data/set.bin", "latest.py", "src/model.py", "train.py"]


def test_git_decides_on_files_in_a_repository(project: Path) -> None:
    git = ("git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run([*git, "init", "-q"], check=True)
    (project / ".gitignore").write_text("data/\nenv/\ntrain.py\n")
    (project / "gone.py").write_text("")
    subprocess.run([*git, "add", "."], check=True)
    (project / "gone.py").unlink()
    (project / "new.py").write_text("")
    # The script is there in any case.
    assert names(sent(project)) == [".gitignore", "latest.py", "new.py", "src/model.py", "train.py"]


def test_a_repository_in_the_repository(project: Path) -> None:
    inner = project / "library"
    inner.mkdir()
    for root in (project, inner):
        subprocess.run(["git", "-C", str(root), "init", "-q"], check=True)
    (inner / ".gitignore").write_text("*.log\n")
    for name in ("part.py", "run.log"):
        (inner / name).write_text("")
    assert {"library/part.py", "library/.gitignore"} <= set(names(sent(project)))
    assert "library/run.log" not in names(sent(project))


def test_a_large_project_names_its_largest_folders(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "data" / "set.bin").write_bytes(b"0" * 3000)
    with pytest.raises(UsageError, match=r"Largest: data/ 3\.0 kB, src/ "):
        project_files(project, project / "train.py", largest_bytes=2000)
    monkeypatch.setattr(listing, "MOST_FILES", 2)
    with pytest.raises(UsageError, match=r"in 4 files; .* in 2\. Largest"):
        sent(project)


def test_the_copy_follows_the_project(project: Path, copy: ProjectCopy) -> None:
    (project / "train.py").chmod(0o755)
    assert taken(copy, project) == ["data/set.bin", "src/model.py", "train.py"]
    assert (copy.root / "latest.py").read_text() == "train.py"
    assert (copy.root / "train.py").stat().st_mode & 0o100
    assert taken(copy, project) == []

    (copy.root / "src" / "weights.pt").write_text("made there")
    (project / "train.py").write_text("changed")
    (project / "src" / "model.py").unlink()
    (project / "data" / "set.bin").unlink()
    (project / "latest.py").unlink()
    (project / "latest.py").write_text("a file now")
    assert taken(copy, project) == ["latest.py", "train.py"]
    assert (copy.root / "train.py").read_text() == "changed"
    assert (copy.root / "latest.py").read_text() == "a file now"
    assert not (copy.root / "latest.py").is_symlink()
    assert [path.name for path in (copy.root / "src").iterdir()] == ["weights.pt"]
    assert not (copy.root / "data").exists()


def test_data_there_takes_the_place_of_a_link(project: Path, copy: ProjectCopy) -> None:
    (project / "images").symlink_to("/nowhere/here")
    (copy.root / "images").mkdir(parents=True)
    taken(copy, project)
    assert not (copy.root / "images").is_symlink()


def test_nothing_is_written_through_a_link_on_the_host(
    project: Path, copy: ProjectCopy, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    copy.root.mkdir(parents=True)
    (copy.root / "data").symlink_to(elsewhere)
    with pytest.raises(UsageError, match="leads out of the copy of the project"):
        taken(copy, project)
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("path", ["../x.py", "/etc/x.py", "a/../../x.py", ""])
def test_paths_stay_in_the_copy(copy: ProjectCopy, path: str) -> None:
    with pytest.raises(UsageError, match="not a path of a project"):
        copy.prepare([ProjectFile(path, "0")])


@pytest.mark.parametrize("name", ["..", "a/b", "", ".x"])
def test_names_of_copies(name: str) -> None:
    with pytest.raises(UsageError, match="not the name of a project"):
        ProjectCopy(name)


def test_unsaved_text_takes_the_place_of_a_file(project: Path) -> None:
    before = {file.path: file.sha256 for file in sent(project)}
    files = project_files(project, project / "train.py", texts={"train.py": b"typed"})
    changed = {file.path: file.sha256 for file in files if file.sha256 != before[file.path]}
    assert changed == {"train.py": sha256(b"typed").hexdigest()}


def test_options_of_this_machine_are_left_out() -> None:
    parser = argparse.ArgumentParser()
    local = [parser.add_argument("--json"), parser.add_argument("--no-save", action="store_true")]
    words = ("--steps", "4", "--json", "-", "--no-save", "--json=a", "-q")
    assert without(words, local) == ("--steps", "4", "-q")
