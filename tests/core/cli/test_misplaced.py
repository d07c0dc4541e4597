"""Options of ours behind the script's name: told, or refused, unless they are the script's own."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skyline.cli.misplaced import misplaced, remarks

Run = Callable[..., Any]

ENDS_AT_ONCE = "import sys\nsys.exit('ran with ' + ' '.join(sys.argv[1:]))\n"


@pytest.mark.parametrize("words", [["--gpu", "h100"], ["--gpu=h100"], ["--epochs", "1", "--gpu"]])
def test_a_gpu_behind_the_script_does_not_train_for_real(
    skyline: Run, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "train.py").write_text(ENDS_AT_ONCE)
    ran = skyline("profile", "train.py", *words)
    assert ran.code == 2
    assert "--gpu stands after the script's name" in ran.err
    assert "skyline profile --gpu" in ran.err
    assert "ran with" not in ran.err


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("", False),
        ("print('side effects')  # side_effects", False),
        ("parser.add_argument('--side-effects')", True),
        ("class Options:\n    side_effects: str = ''", True),
        ("flags.DEFINE_string('side_effects', '', '')", True),
        ("if options.side_effects: pass", True),
    ],
)
@pytest.mark.parametrize("name", ["train.py", "options.py"])
@pytest.mark.parametrize("words", [["--side-effects", "allow"], ["--side-effects=allow"]])
def test_an_option_is_misplaced_where_neither_script_nor_neighbour_knows_it(
    tmp_path: Path, text: str, known: bool, name: str, words: list[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    (tmp_path / name).write_text(text)
    action = argparse.ArgumentParser().add_argument("--side-effects")
    found = misplaced(["--epochs", "1", *words], [action], script)
    assert found == ({} if known else {"--side-effects": "allow"})
    assert len(remarks(found)) == len(found)


def test_the_number_of_a_gpu_is_for_the_script() -> None:
    assert remarks({"--gpu": "0"}) != []
    assert remarks({"--gpu": "0,1"}) != []


@pytest.mark.capture
@pytest.mark.parametrize("dashes", [False, True])
def test_the_script_gets_the_option_and_the_person_a_remark(
    skyline: Run, tmp_path: Path, dashes: bool
) -> None:
    (tmp_path / "train.py").write_text(ENDS_AT_ONCE)
    ran = skyline("profile", *(["--"] if dashes else []), "train.py", "--steps", "9")
    assert ran.code == 1
    assert "ran with --steps 9" in ran.err
    told = "--steps after the script's name goes to the script; Skyline's own options come before it"
    assert (told in ran.err) == (not dashes)
