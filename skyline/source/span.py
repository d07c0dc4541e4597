"""A place in a source file."""

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
