from __future__ import annotations

import argparse

import pytest

from skyline.cli.command_line import split_after_names, split_at_script
from skyline.cli.main import COMMANDS


def options() -> list[argparse.Action]:
    parser = argparse.ArgumentParser()
    return [
        parser.add_argument("--steps"),
        parser.add_argument("-q", "--quiet", action="store_true"),
        parser.add_argument("--json"),
        parser.add_argument("--attach", nargs="?", const=""),
    ]


@pytest.mark.parametrize(
    ("words", "ours", "theirs"),
    [
        ("train.py", "", "train.py"),
        ("--steps 3 train.py --steps 9 -q", "--steps 3", "train.py --steps 9 -q"),
        ("--steps=3 -q train.py --help", "--steps=3 -q", "train.py --help"),
        ("--json - train.py -- -x", "--json -", "train.py -x"),
        ("-q -- -odd-name.py --steps 1", "-q", "-odd-name.py --steps 1"),
        ("--help", "--help", ""),
        ("--steps", "--steps", ""),
        ("", "", ""),
        # A value that may be missing.
        ("--attach", "--attach", ""),
        ("--attach run", "--attach run", ""),
        ("-q train.py -- --lr 1", "-q", "train.py --lr 1"),
        ("-- train.ipynb -- -- x", "", "train.ipynb -- x"),
        ("-m package.train -- x", "", "-m package.train x"),
        ("train.py --lr 1 -- x", "", "train.py --lr 1 -- x"),
        ("torchrun train.py -- x", "", "torchrun train.py -- x"),
        ("--attach --steps 3 train.py", "--attach --steps 3", "train.py"),
    ],
)
def test_everything_from_the_script_on_is_the_scripts(words: str, ours: str, theirs: str) -> None:
    assert split_at_script(words.split(), options()) == (ours.split(), theirs.split())


@pytest.mark.parametrize(
    ("words", "ours", "theirs"),
    [
        ("train.py amp -- --lr -- 1", "train.py amp", ("--lr", "--", "1")),
        ("train.py amp", "train.py amp", None),
        ("train.py --", "train.py", ()),
        ("train.py amp --json - --epochs 1 --json out", "train.py amp --json -", ("--epochs", "1", "--json", "out")),
        ("-q train.py --json=- -x 2", "-q train.py --json=-", ("-x", "2")),
        ("--unknown train.py", "--unknown train.py", None),
    ],
)  # fmt: skip
def test_the_first_unknown_option_behind_the_script_begins_its_arguments(
    words: str, ours: str, theirs: tuple[str, ...] | None
) -> None:
    command = argparse.ArgumentParser()
    command.add_argument("-q", "--quiet", action="store_true")
    command.add_argument("--json")
    typed = split_after_names(words.split(), command)
    assert (typed.ours, typed.arguments) == (ours.split(), theirs)
    assert typed.marked == (theirs is not None and "--" in words.split()[: len(words.split()) - len(theirs)])


def test_an_option_with_two_values_keeps_both_behind_the_script() -> None:
    command = argparse.ArgumentParser()
    command.add_argument("--perfetto", nargs=2)
    typed = split_after_names(
        ["train.py", "--perfetto", "1", "out.json", "--seed", "3"], command, names=False
    )
    assert typed.ours == ["train.py", "--perfetto", "1", "out.json"]
    assert typed.arguments == ("--seed", "3")


def test_every_command_has_a_module_and_every_module_a_summary() -> None:
    from importlib import import_module

    for name in COMMANDS:
        assert callable(import_module(f"skyline.cli.{name}").run)
