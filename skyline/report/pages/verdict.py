"""The verdict: the first lines of a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from skyline.report.document import Block, Paragraph, said
from skyline.report.place import place_of
from skyline.report.schema import VerdictReport


def verdict_blocks(verdict: VerdictReport | None, script: str, base: Path | None = None) -> Iterator[Block]:
    """The cause that bounds the step, the change that helps most, and the command that makes it."""
    if verdict is None:
        return
    where = f" ({place_of(verdict, base)})" if verdict.file else ""
    yield Paragraph(f"{verdict.bound.removesuffix('.')}{where}.", "bold")
    yield Paragraph(verdict.advice, "bold")
    if verdict.choice and verdict.rewritten:
        yield Paragraph(f"make it: skyline apply {quote(script)} {verdict.choice}", "dim", indent=3)
    elif verdict.obstacle:
        yield Paragraph(f"by hand: {verdict.obstacle}", "dim", indent=3)
    yield from said(verdict.caution, tone="yellow")
