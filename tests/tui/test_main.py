from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from skyline.errors import ExitCode, UsageError
from skyline.source.project import project_root
from skyline_tui.client import server_command
from skyline_tui.main import main
from skyline_tui.pick import pick_script, training_scripts


def test_a_script_that_is_not_there_is_named_with_the_nearest_there_is(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    with pytest.raises(UsageError, match=r"trian\.py does not exist") as refused:
        main([str(tmp_path / "trian.py")])
    assert "Did you mean" in refused.value.hint
    assert "train.py" in refused.value.hint


def test_without_a_terminal_the_way_out_is_named(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(script)]) == ExitCode.USAGE
    assert "skyline profile" in capsys.readouterr().err


def test_a_redirected_stderr_is_refused_in_place_of_an_empty_screen(script: Path, tmp_path: Path) -> None:
    master, slave = pty.openpty()
    try:
        with (tmp_path / "errors").open("wb") as errors:
            code = "import sys; from skyline_tui.main import main; sys.exit(main(sys.argv[1:]))"
            done = subprocess.run(
                [sys.executable, "-c", code, str(script)],
                stdin=slave,
                stdout=slave,
                stderr=errors,
                check=False,
                timeout=60,
            )
        assert done.returncode == ExitCode.USAGE
        assert "stderr, which is redirected" in os.read(master, 4096).decode()
    finally:
        os.close(slave)
        os.close(master)


def test_only_training_scripts_are_offered(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nloss.backward()\n")
    (tmp_path / "model.py").write_text("import torch\n")
    (tmp_path / "notes.txt").write_text("torch .backward(")
    (tmp_path / "gan").mkdir()
    (tmp_path / "gan" / "main.py").write_text("import torch\nloss.backward()\n")
    (tmp_path / "train.ipynb").write_text('{"cells": [{"source": "import torch\\nloss.backward()"}]}')
    found = [path.relative_to(tmp_path).as_posix() for path in training_scripts(tmp_path)]
    assert found == ["train.py", "train.ipynb", "gan/main.py"]


def test_a_single_candidate_is_taken_and_none_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pick_script(tmp_path) is None
    assert "skyline tui SCRIPT" in capsys.readouterr().err
    (tmp_path / "train.py").write_text("import torch\nloss.backward()\n")
    assert pick_script(tmp_path) == tmp_path / "train.py"


def test_the_root_is_the_nearest_project(tmp_path: Path) -> None:
    inner = tmp_path / "project" / "src"
    inner.mkdir(parents=True)
    (tmp_path / "project" / "pyproject.toml").touch()
    assert project_root(inner / "train.py") == tmp_path / "project"


def test_a_neighbour_named_like_a_standard_module_does_not_reach_the_server(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('the wrong queue')\n")
    done = subprocess.run(
        [*server_command(), "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "the wrong queue" not in done.stderr
    assert done.returncode == 0


def test_the_terminal_ui_imports_neither_torch_nor_the_server() -> None:
    found = "[name for name in ('torch', 'skyline_lsp') if name in sys.modules]"
    code = f"import sys, skyline_tui.app, skyline_tui.client; print({found})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
