"""Result files: a page to read, and the same figures in a JSON file for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from machine import Machine

RESULTS = Path(__file__).parent / "results"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with padded columns, so that it also reads well as plain text."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return "\n".join(
        [line(head), "|" + "|".join("-" * (width + 2) for width in widths) + "|", *map(line, rows)]
    )


def write(
    name: str, title: str, machine: Machine, body: str, figures: object, *, results: Path = RESULTS
) -> str:
    """Write NAME.md and NAME.json. Returns the text of the page."""
    page = f"# {title}\n\n{machine.sentence()}\n\n{body.strip()}\n"
    results.mkdir(parents=True, exist_ok=True)
    (results / f"{name}.md").write_text(page, encoding="utf-8")
    content = {"machine": machine.as_json(), "figures": figures}
    (results / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return page
