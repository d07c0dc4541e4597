"""A project is copied with its profiles: commands speak of the copy, and write into it alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyline.capture.redactor import HIDDEN
from skyline.trace import store

Run = Callable[..., Any]


@pytest.fixture
def copy(saved: Path, script: Path, tmp_path: Path) -> Path:
    """The script in a copy of its folder."""
    folder = tmp_path / "copy"
    folder.mkdir()
    shutil.copytree(saved.parent, folder / store.FOLDER)
    shutil.copy(script, folder)
    return folder / "train.py"


def test_apply_writes_into_the_copy(skyline: Run, script: Path, copy: Path) -> None:
    before = script.read_text()
    ran = skyline("apply", str(copy), "batch_size=32")
    assert ran.code == 0, ran.err
    assert str(copy) in ran.out
    assert "batch_size=32" in copy.read_text()
    assert script.read_text() == before


def test_apply_writes_nothing_outside_of_the_project(
    skyline: Run, saved: Path, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place of the batch size is in the profile, which may come from anybody."""
    project = tmp_path / "project"
    project.mkdir()
    named, outside = project / "train.py", tmp_path / "outside.py"
    for path in (named, outside):
        path.write_text(script.read_text())
    profile = store.load(saved)
    elsewhere = tuple(
        replace(knob, span=replace(knob.span, file=str(outside))) for knob in profile.knobs.candidates
    )
    sources = tuple(replace(one, path=str(named)) for one in profile.sources)
    hostile = replace(
        profile, script=str(named), sources=sources, knobs=replace(profile.knobs, candidates=elsewhere)
    )
    store.save(hostile)
    monkeypatch.chdir(project)
    ran = skyline("apply", "train.py", "batch_size=32")
    assert ran.code == 2
    assert "outside.py lies outside the project of train.py" in ran.err
    assert outside.read_text() == script.read_text()


def test_show_speaks_of_the_copy(skyline: Run, script: Path, copy: Path) -> None:
    copy.write_text(copy.read_text() + "# more\n")
    assert "changed since this profile was made: train.py" in skyline("show", str(copy)).err
    assert "changed" not in skyline("show", str(script)).err
    saved = next((copy.parent / store.FOLDER).glob("*.gz"))
    assert "changed since this profile was made: train.py" in skyline("show", str(saved)).err


@pytest.mark.parametrize("command", ["verify", "whatif"])
def test_a_hidden_argument_is_asked_for_again(skyline: Run, saved: Path, script: Path, command: str) -> None:
    """The script is not run with the words that stand in the place of the secret."""
    profile = store.load(saved)
    saved.unlink()
    store.save(replace(profile, arguments=("--api-key", HIDDEN)))
    script.write_text(script.read_text() + "# more\n")
    ran = skyline(command, "train.py", "batch_size=32")
    assert ran.code == 2
    assert "was profiled with a secret in its arguments, and secrets are not stored" in ran.err
    assert "at the end of the command" in ran.err


def test_the_same_arguments_answer_from_the_profile(skyline: Run, saved: Path) -> None:
    profile = store.load(saved)
    saved.unlink()
    store.save(replace(profile, arguments=("--api-key", HIDDEN, "--lr", "1")))
    ran = skyline("whatif", "train.py", "batch_size=32", "--", "--api-key", "abc", "--lr", "1")
    assert ran.code == 0, ran.err
    assert "from the profile of" in ran.err
