"""The examples of docs/ranks.md, run in their order: what they print is what stands behind."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "ranks.md"


def test_the_examples_print_what_the_page_says(job_on_disk, tmp_path, monkeypatch, capsys):
    job_on_disk([1000.0, 1500.0, 1000.0])
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        exec(compile(block, str(PAGE), "exec"), names)
        expected = re.findall(r"^\s*print\(.*\)  # (.*)$", block, re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == expected
        assert expected
