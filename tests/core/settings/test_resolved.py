"""Who wins, and where a value is said to come from."""

from __future__ import annotations

from pathlib import Path

from skyline.settings.pyproject import project_settings
from skyline.settings.source import from_editor, from_words, resolve


def test_the_command_line_wins_over_the_editor_over_the_project_over_the_default(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(
        "[tool.skyline]\ngpu = 'a'\ninterpreter = 'a'\n[tool.skyline.profile]\nsteps = 3\ntimeout_s = 9\n"
    )
    folder = tmp_path / "src" / "deep"
    folder.mkdir(parents=True)
    resolved = resolve(
        (
            project_settings(folder),
            from_editor({"gpu": "b", "interpreter": "b"}),
            from_words(["gpu=c"]),
        )
    )
    of = {entry.key: (entry.value, entry.origin, entry.place) for entry in resolved.entries}
    assert of["gpu"] == ("c", "command line", "")
    assert of["interpreter"] == ("b", "editor", "")
    assert of["profile.steps"] == (3, "pyproject", str(file))
    assert of["profile.onSave"] == ("afterFirst", "default", "")
    assert resolved.settings.gpu == "c"
    assert resolved.settings.profile.timeout_s == 9.0


def test_the_nearest_file_with_a_table_counts_alone(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.skyline]\ngpu = 'outer'\ninterpreter = 'python3.9'\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("[tool.ruff]\n# skyline\n")
    source = project_settings(inner)
    assert source is not None
    assert source.values["gpu"] == "outer"
    (inner / "pyproject.toml").write_text("[tool.skyline]\ngpu = 'inner'\n")
    source = project_settings(inner)
    assert source is not None
    assert source.values == {"gpu": "inner"}


def test_a_project_cannot_have_its_scripts_run_unasked(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.skyline.profile]\non_save = 'always'\n[tool.skyline]\nnetwork = 'open'\n"
    )
    source = project_settings(tmp_path)
    assert source is not None
    assert source.values == {"profile.onSave": "afterFirst", "network": "loopback"}


def test_files_that_a_project_names_are_meant_from_its_folder(tmp_path: Path) -> None:
    text = (
        "[tool.skyline]\ninterpreter = 'env/bin/python'\n[tool.skyline.profile]\nentry_point = 'train.py'\n"
    )
    (tmp_path / "pyproject.toml").write_text(text)
    source = project_settings(tmp_path)
    assert source is not None
    assert source.values["interpreter"] == str(tmp_path / "env/bin/python")
    assert source.values["profile.entryPoint"] == str(tmp_path / "train.py")


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.skyline\n")
    source = project_settings(tmp_path)
    assert source is not None
    assert source.values == {}
    (problem,) = source.problems
    assert "is not TOML" in problem
    (tmp_path / "pyproject.toml").write_text("[tool]\nskyline = 3\n")
    source = project_settings(tmp_path)
    assert source is not None
    assert "must be an object" in source.problems[0]
