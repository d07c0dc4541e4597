"""Unified diffs and previews as styled lines. Signs at the line starts carry the meaning; colour only helps."""

from __future__ import annotations

from textual.content import Content

from skyline.report.protocol import PreviewResult


def diff_lines(diff: str) -> list[Content]:
    """The lines of a unified diff."""
    return [_styled(line) for line in diff.splitlines()]


def preview_lines(preview: PreviewResult) -> list[Content]:
    """The edits that would be written; for refused ones, the reason and the code to write by hand."""
    lines = diff_lines(preview.diff) or [Content("Nothing would be written.")]
    for refused in preview.refused:
        lines.append(
            Content.assemble(
                ("\n! " + refused.name, "bold $text-warning"), f" is not rewritten: {refused.reason}"
            )
        )
        if refused.snippet:
            lines.append(Content("  To write by hand:"))
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
