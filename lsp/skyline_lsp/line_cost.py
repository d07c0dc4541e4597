"""The measured costs of a file's lines, at their current places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skyline.report.schema import LineReport, ProfileReport
from skyline.source.line_map import line_map
from skyline.source.text import SourceText
from skyline_lsp.line_detail import LineDetail
from skyline_lsp.state import Scripts

_NOTHING = LineDetail()


@dataclass(frozen=True, slots=True)
class PlacedLineCost:
    """A row of a profile with its line in the current text, counted from 1."""

    line: int
    row: LineReport
    report: ProfileReport
    detail: LineDetail
    stale: bool


def line_costs(scripts: Scripts, path: str, text: SourceText) -> Iterator[PlacedLineCost]:
    """The costs of a file's lines, from the script with the latest profile that includes the file."""
    state = scripts.covering(path)
    if state is None or state.prepared is None:
        return
    lines = line_map(state.prepared.sources[path].text, text.text)
    for number, row in state.prepared.lines.get(path, {}).items():
        line = lines(number)
        if line is not None:
            detail = state.prepared.details.get((path, number), _NOTHING)
            yield PlacedLineCost(line, row, state.prepared.report, detail, state.stale)
