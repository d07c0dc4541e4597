from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
BRIEF = Path(__file__).resolve().parents[1] / "brief_measurements.py"
linux = pytest.mark.skipif(
    sys.platform != "linux", reason="orphaned processes find a new parent on Linux only"
)


@linux
def test_each_kind_is_tried_and_their_order_is_mixed() -> None:
    from fault_kinds import kinds
    from faults import plan

    every = kinds()
    assert len(every) >= 25
    assert len({kind.name for kind in every}) == len(every)
    planned = plan(every, 500)
    assert {kind.name for kind, _ in planned} == {kind.name for kind in every}
    assert len(planned) >= 450
    assert len({kind.name for kind, _ in planned[: len(every)]}) == len(every)


@linux
def test_a_changed_file_is_a_loss(tmp_path: Path) -> None:
    from fault_command import Lost
    from fault_project import Project

    project = Project(tmp_path)
    project.folder.mkdir()
    (project.folder / "notes.txt").write_text("as it was")
    before = project.checksum()
    project.check_files(before)
    (project.folder / "notes.txt").write_text("touched")
    with pytest.raises(Lost, match=r"notes\.txt"):
        project.check_files(before)


@linux
@pytest.mark.capture
@pytest.mark.parametrize(
    "kinds",
    [
        "settings torn,an empty environment",
        pytest.param(
            "profile torn,every byte of the settings,profile command killed,language server killed",
            marks=pytest.mark.long,
        ),
    ],
)
def test_faults_take_nothing_away(kinds: str, tmp_path: Path) -> None:
    # A process of its own, since it becomes the parent of whatever its commands leave behind.
    command = [sys.executable, BENCHMARKS / "faults.py", "--kinds", kinds]
    command += ["--faults", "2", "--jobs", "1", "--budget", "0", "--results", tmp_path]
    command += ["--program", BRIEF]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Nothing was lost." in (tmp_path / "faults.md").read_text()
