"""What apply would write, as a unified diff, and what it would leave alone and why."""

from __future__ import annotations

from textual.content import Content

from skyline.report.protocol import PreviewResult
from skyline_tui.screens.sheet import Sheet


class Diff(Sheet):
    """Signs at the line starts carry the meaning; colour only helps."""

    def __init__(self, preview: PreviewResult) -> None:
        lines = [_styled(line) for line in preview.diff.splitlines()]
        if not lines:
            lines = [Content("Nothing would be written.")]
        for refused in preview.refused:
            lines.append(
                Content.assemble(
                    ("\n! " + refused.name, "bold $text-warning"), f" is not rewritten: {refused.reason}"
                )
            )
            if refused.snippet:
                lines.append(Content("  To write by hand:"))
                lines += [Content(f"    {line}") for line in refused.snippet.splitlines()]
        super().__init__("What apply would write", Content("\n").join(lines))


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
