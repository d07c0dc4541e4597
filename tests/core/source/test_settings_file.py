"""The batch size is found in files of settings, with its line and key, and can be tried with another value."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.source.knob import SettingPlace
from skyline.source.settings_file import (
    batch_size_places,
    entries,
    still_holds,
    with_setting,
)

YAML = """\
# Settings.
model:
  width: 512   # batch_size: 16
"train":
  # batch_size: 16
  batch_size: &size 16  # per step
  lr: 0.001
note: |
  batch_size: 16
eval:
  batch_size: 16
"""
JSON = '{\n  "model": {"width": 16},\n  "train": {"batch_size": 16,\n    "steps": [1, 16]}, "val_batch_size": 16\n}\n'
TOML = """\
title = "batch_size = 16"
[train]  # of the model
lr = 1e-3
batch_size = 1_6 # a comment
[train.data]
loader = { workers = 2, batch_size = 32 }
"""
INI = "[model]\nwidth = 16\n[train]\nbatch size = 16 ; a comment\n; bs = 16\nbs: 8\n"
PYTHON = """\
import os
class Train:
    width = 16
    batch_size: int = 16
config = dict(model={"width": 16}, data={"é": 1, "bs": 24})
"""


@pytest.mark.parametrize(
    ("name", "text", "value", "line", "key", "written"),
    [
        ("config.yaml", YAML, 16, 6, "train.batch_size", "16"),
        ("flat.yml", "bs: '16'\n", 16, 1, "bs", "'16'"),
        ("flow.yaml", "train: {lr: 0.1, batch_size: 16}\n", 16, 1, "train.batch_size", "16"),
        ("list.yaml", "jobs:\n  - name: a\n    batch_size: 0x10\n", 16, 3, "jobs.batch_size", "0x10"),
        ("two.yaml", "data:\n  batch:\n    size: 16\n", 16, 3, "data.batch.size", "16"),
        ("windows.yaml", "a: 1\r\ntrain:\r\n  batch_size: 16\r\n", 16, 3, "train.batch_size", "16"),
        ("json.yaml", JSON, 16, 3, "train.batch_size", "16"),
        ("config.json", JSON, 16, 3, "train.batch_size", "16"),
        ("config.jsonc", '{ // bs: 16\n "a": {"batch": "16"}}', 16, 2, "a.batch", '"16"'),
        ("config.toml", TOML, 16, 4, "train.batch_size", "1_6"),
        ("config.toml", TOML, 32, 6, "train.data.loader.batch_size", "32"),
        ("config.ini", INI, 16, 4, "train.batch size", "16"),
        (".env", "export BATCH_SIZE=16\n", 16, 1, "BATCH_SIZE", "16"),
        ("config.py", PYTHON, 16, 4, "Train.batch_size", "16"),
        ("config.py", PYTHON, 24, 5, "config.data.bs", "24"),
    ],
)
def test_a_batch_size_is_found_and_changed(
    name: str, text: str, value: int, line: int, key: str, written: str
) -> None:
    place = batch_size_places([(name, text)], value)[0]
    assert place == SettingPlace(name, line, key, written)
    changed = with_setting(place, text, 48)
    assert changed is not None
    before, after = text.splitlines(), changed.splitlines()
    different = [
        number for number, pair in enumerate(zip(before, after, strict=True), 1) if pair[0] != pair[1]
    ]
    assert different == [line]
    assert [(one.line, one.key) for one in batch_size_places([(name, changed)], 48)] == [(line, key)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.yaml", "width: 16\nval_batch_size: 16\ntest:\n  batch_size: 16\n"),
        ("config.yaml", "batch_size: 160\n"),
        ("config.yaml", "batch_size: 16.5\n"),
        ("config.json", '{"text": "batch_size: 16", "batch_size": [16.0]}'),
        ("config.toml", 'text = """\nbatch_size = 16\n"""\n'),
        ("config.toml", "batch_size = 16\nthis is no TOML\n"),
        ("config.py", "def f(:\n"),
        ("notes.txt", "batch_size: 16\n"),
    ],
)
def test_other_numbers_are_not_taken_for_it(name: str, text: str) -> None:
    assert batch_size_places([(name, text)], 16) == []


def test_training_comes_first_and_the_later_file_overrides_the_earlier_one() -> None:
    base, own = "batch_size: 16\n", "lr: 1\nbatch_size: 16\n"
    assert [one.file for one in batch_size_places([("base.yaml", base), ("own.yaml", own)], 16)] == [
        "own.yaml",
        "base.yaml",
    ]
    text = "pretext:\n  batch_size: 16\ntrain:\n  batch_size: 16\n"
    assert batch_size_places([("a.yaml", text)], 16)[0].line == 4


def test_a_section_that_an_argument_names_comes_first() -> None:
    files = [("ppo.yml", "atari:\n  batch_size: 16\nCartPole-v1:\n  batch_size: 16\n")]
    assert [place.line for place in batch_size_places(files, 16)] == [2, 4]
    for arguments in (("--algo", "ppo", "--env", "CartPole-v1"), ("--env=CartPole-v1",)):
        assert [place.line for place in batch_size_places(files, 16, arguments)] == [4, 2]


def test_a_place_that_changed_is_not_written() -> None:
    place = SettingPlace("a.yaml", 1, "batch_size", "16")
    assert with_setting(place, "batch_size: 17\n", 32) is None
    assert place.words == "a.yaml, line 1 (`batch_size: 16`)"


def test_a_place_holds_while_its_number_does(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("batch_size: 16\n", encoding="utf-8")
    (place,) = batch_size_places([(str(file), file.read_text(encoding="utf-8"))], 16)
    assert still_holds(place)
    file.write_text("# moved\nbatch_size: 16\n", encoding="utf-8")
    assert still_holds(place)
    file.write_text("batch_size: 32\n", encoding="utf-8")
    assert not still_holds(place)
    file.unlink()
    assert not still_holds(place)


def test_damaged_files_have_no_entries_and_names_tell_which_are_read() -> None:
    for name in ("a.json", "a.yaml", "a.toml", "a.ini", "a.py"):
        entries(name, "{[: \x00 = \n" * 5 + "]}}")
    assert entries("/x/image.png", "batch_size = 8\n") == []
