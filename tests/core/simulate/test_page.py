"""The examples of docs/simulation.md, run in their order: what they print is what stands behind or below."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import skyline.simulate

PAGE = Path(__file__).resolve().parents[3] / "docs" / "simulation.md"


def test_the_examples_print_what_the_page_says(capsys):
    names: dict[str, object] = {}
    shown = 0
    for block in re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        with np.printoptions(legacy=False):
            exec(compile(block, str(PAGE), "exec"), names)
        expected = re.findall(r"^(?:print\(.*\)  )?# (.*)$", block, re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == expected
        shown += len(expected)
    assert shown > 10


def test_every_public_question_has_its_example():
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in skyline.simulate.__all__ if name[0].islower() and f"{name}(" not in text] == []
