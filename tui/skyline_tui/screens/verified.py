"""A prediction with its measurement."""

from __future__ import annotations

from skyline.report.pages.verification import verification_page
from skyline.report.schema import VerifyReport
from skyline_tui.screens.sheet import Sheet
from skyline_tui.views.view import rendered

_WIDEST, _FRAME = 90, 8
"""Cells of the sheet as in the style sheet, and those of its frame, its margin and its scroll bar."""


class VerifiedSheet(Sheet):
    """The page of ``skyline verify`` for a screen of this width."""

    def __init__(self, report: VerifyReport, width: int) -> None:
        super().__init__(
            "Verified", rendered(verification_page(report), min(_WIDEST, int(0.96 * width)) - _FRAME)
        )
