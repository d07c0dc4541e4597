"""A place in a source file, and new text for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """A range of text in one file.

    ``line`` counts from 1, as editors and tracebacks print it; ``column`` counts characters (code points)
    from 0 in the decoded text, and ``end_column`` is exclusive.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace the characters of ``span``, which must still equal ``old_text``, by ``new_text``."""

    span: SourceSpan
    old_text: str
    new_text: str
