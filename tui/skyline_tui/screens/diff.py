"""The edits to write or written last, as a unified diff, and the refused ones with reasons."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from skyline.report.protocol import PreviewResult
from skyline_tui.diff_text import diff_lines, preview_lines
from skyline_tui.screens.sheet import Sheet
from skyline_tui.workspace_edit import RewrittenFile


class Diff(Sheet):
    """The diff of a requested change; ``of_written`` shows that of a written one."""

    def __init__(self, preview: PreviewResult) -> None:
        super().__init__("Edits that apply would write", Content("\n").join(preview_lines(preview)))

    @classmethod
    def of_written(cls, files: Sequence[RewrittenFile]) -> Sheet:
        """The last change of the files on disk."""
        lines = [line for file in files for line in diff_lines(file.diff)]
        return Sheet("Edits written last", Content("\n").join(lines))
