"""The edits to be written, or those written last, as a unified diff. Refused edits have reasons."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from skyline.report.protocol import PreviewResult
from skyline_tui.screens.sheet import Sheet
from skyline_tui.workspace_edit import RewrittenFile


class Diff(Sheet):
    """The diff of a requested change; ``of_written`` shows the diff of a written change."""

    def __init__(self, preview: PreviewResult) -> None:
        super().__init__("Edits that apply would make", Content("\n").join(preview_lines(preview)))

    @classmethod
    def of_written(cls, files: Sequence[RewrittenFile]) -> Sheet:
        """The last change of the files on disk."""
        lines = [line for file in files for line in diff_lines(file.diff)]
        return Sheet("Latest edits", Content("\n").join(lines))


def diff_lines(diff: str) -> list[Content]:
    """The lines of a unified diff."""
    return [_styled(line) for line in diff.splitlines()]


def preview_lines(preview: PreviewResult) -> list[Content]:
    """The edits that would be written; for refused ones, the reason and the code to write by hand."""
    lines = diff_lines(preview.diff) or [Content("Apply would make no edits.")]
    for refused in preview.refused:
        lines.append(
            Content.assemble(
                ("\n! " + refused.name, "bold $text-warning"), f" is not rewritten: {refused.reason}"
            )
        )
        if refused.snippet:
            lines.append(Content("  Code to insert by hand:"))
            lines += [Content(f"    {line}") for line in refused.snippet.splitlines()]
    return lines


def _styled(line: str) -> Content:
    if line.startswith(("+++", "---")):
        return Content.styled(line, "bold")
    if line.startswith("@@"):
        return Content.styled(line, "$text-accent")
    if line.startswith("+"):
        return Content.styled(line, "$text-success on $success-muted")
    if line.startswith("-"):
        return Content.styled(line, "$text-error on $error-muted")
    return Content(line)
