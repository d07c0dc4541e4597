"""What was applied, so that it can be taken back in reverse order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skyline.source.edit import TextEdit
from skyline.source.span import SourceSpan
from skyline.source.text import SourceText


@dataclass(frozen=True, slots=True)
class Applied:
    """One apply: every file it touched, as it was before and after."""

    label: str
    before: dict[str, SourceText]
    after: dict[str, SourceText]

    def inverse(self) -> tuple[TextEdit, ...]:
        """The smallest single replacement per file that brings the old text back, byte for byte."""
        return tuple(_replacement(self.after[file], self.before[file]) for file in self.after)


class AppliedStack:
    """The applies of one script that can still be taken back, the latest on top."""

    def __init__(self) -> None:
        self._stacks: dict[str, list[Applied]] = {}

    def push(self, script: str, applied: Applied) -> None:
        """Remember an apply that the client has carried out."""
        self._stacks.setdefault(script, []).append(applied)

    def top(self, script: str) -> Applied | None:
        """What a revert would take back."""
        stack = self._stacks.get(script)
        return stack[-1] if stack else None

    def pop(self, script: str) -> None:
        """The latest apply is taken back."""
        self._stacks[script].pop()


def holds(texts: dict[str, SourceText], read: Callable[[str], SourceText | None]) -> bool:
    """Whether every file reads exactly as given."""
    return all(
        (current := read(file)) is not None and current.text == text.text for file, text in texts.items()
    )


def _replacement(old: SourceText, new: SourceText) -> TextEdit:
    shorter = min(len(old.text), len(new.text))
    head = 0
    while head < shorter and old.text[head] == new.text[head]:
        head += 1
    # Never between a carriage return and its newline: no client could address that place.
    while head and old.text[head - 1] == "\r":
        head -= 1
    tail = 0
    while tail < shorter - head and old.text[-1 - tail] == new.text[-1 - tail]:
        tail += 1
    if tail and old.text[-tail] == "\n" and "\r" in (old.text[-tail - 1 :][:1], new.text[-tail - 1 :][:1]):
        tail -= 1
    end = len(old.text) - tail
    line, column = old.position(head)
    end_line, end_column = old.position(end)
    span = SourceSpan(old.path, line, column, end_line, end_column)
    return TextEdit(span, old.text[head:end], new.text[head : len(new.text) - tail])
