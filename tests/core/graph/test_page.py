"""The examples of docs/graph.md, run in their order: what they print is what stands behind."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).resolve().parents[3] / "docs" / "graph.md"


def test_the_examples_print_what_the_page_says(capsys):
    names: dict[str, object] = {}
    shown = 0
    for block in re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        with np.printoptions(legacy=False):
            exec(compile(block, str(PAGE), "exec"), names)
        expected = re.findall(r"^\s*print\(.*\)  # (.*)$", block, re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == expected
        assert block.count("print(") == len(expected)
        shown += len(expected)
    assert shown > 10


def test_every_public_change_has_its_example():
    import skyline.graph

    text = PAGE.read_text(encoding="utf-8")
    changes = [name for name in skyline.graph.__all__ if name[0].islower()]
    assert [name for name in changes if f"`{name}`" not in text and f"{name}(" not in text] == []
