"""Result files: a page and the same figures for programs."""

from __future__ import annotations

import json
from pathlib import Path


def test_columns_are_as_wide_as_what_they_hold() -> None:
    from result_file import table

    assert table(["script", "ms"], [["a.py", "12.5"], ["longer.py", "3"]]).splitlines() == [
        "| script    | ms   |",
        "|-----------|------|",
        "| a.py      | 12.5 |",
        "| longer.py | 3    |",
    ]


def test_page_and_figures_name_the_machine(tmp_path: Path) -> None:
    from machine import Machine
    from result_file import write

    machine = Machine(
        "2026-01-02T03:04:05+00:00", "a processor", 2, "Linux 6", "3.11.7", "2.13.0", "0.1.0", 0.25
    )
    page = write("figures", "Figures", machine, "| a |", [{"ms": 1.5}], results=tmp_path)
    assert page == (tmp_path / "figures.md").read_text(encoding="utf-8")
    assert page.startswith("# Figures\n\n2026-01-02T03:04:05+00:00: a processor, 2 cores")
    content = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert content["figures"] == [{"ms": 1.5}]
    assert content["machine"]["load_average"] == 0.25
