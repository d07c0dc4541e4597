"""One replacement in a source file: the only way in which code is changed."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.source.span import SourceSpan


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace the characters of ``span``, which must still equal ``old_text``, by ``new_text``."""

    span: SourceSpan
    old_text: str
    new_text: str
