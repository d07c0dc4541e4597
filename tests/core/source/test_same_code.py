from __future__ import annotations

import pytest

from skyline.source.line_map import same_code

CODE = '''\
"""What it is for."""

import torch


def step(x):
    """One step."""
    return torch.relu(x)  # fast


class Net:
    """A net."""
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# fast", "# slow"),
        ("\n\ndef", "\n# more\n\n\n\ndef"),
        ("One step.", "Another step."),
        ('    """A net."""', "    pass"),
        ("torch.relu(x)", "torch.relu(\n        x\n    )"),
    ],
)
def test_what_only_a_reader_sees_makes_no_difference(old: str, new: str) -> None:
    assert old in CODE
    assert same_code(CODE, CODE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("relu", "tanh"),
        ("def step(x)", "def step(x, y=1)"),
        ("return torch", "x = torch"),
        ("(x)  #", "(x) + 1  #"),
    ],
)
def test_a_change_of_the_code_is_one(old: str, new: str) -> None:
    assert old in CODE
    assert not same_code(CODE, CODE.replace(old, new))


def test_what_cannot_be_parsed_is_only_like_itself() -> None:
    assert same_code("def (", "def (")
    assert not same_code("def (", "def ( # more")
    assert not same_code("x = '\x00'", "x = 1")
