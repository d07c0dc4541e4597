"""The page of a budget check."""

from __future__ import annotations

from skyline.report.check import NAMES, CheckReport, basis, sentence
from skyline.report.document import (
    Cell,
    Column,
    Document,
    Line,
    Paragraph,
    Section,
    TextTable,
    document,
    paragraphs,
    row,
)

_TONES = {"within": "bold green", "over": "bold red", "inconclusive": "bold"}
_COLUMNS = (
    Column("limit", left=True),
    Column("allowed"),
    Column("measured"),
    Column("", left=True),
)


def check_page(report: CheckReport) -> Document:
    """The verdict, a row for each limit, and the measurement behind them."""
    rows = tuple(
        row(NAMES[one.name], one.limit_words, one.measured_words, Cell(one.outcome, _TONES[one.outcome]))
        for one in report.limits
    )
    return document(
        Section((Line((Cell(sentence(report), _TONES[report.outcome]),)),)),
        Section((TextTable(_COLUMNS, rows), Paragraph(basis(report), "dim"))),
        paragraphs("Notes", report.notes),
    )
