"""What must hold of a rewritten source, whatever the rewrite: the rest of the file is as it was."""

from __future__ import annotations

import ast
import tokenize
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from skyline.source.edit import TextEdit
from skyline.source.program import Module
from skyline.source.syntax import offsets_of
from skyline.source.text import SourceText
from skyline.source.tokens import Tokens

_LAYOUT = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
# What parts statements may give way to a line break.
_PARTING = {";"}


class Corrupted(Exception):
    """A rewrite changed what it must not; the message says what."""


@dataclass(frozen=True)
class Moves:
    """Where the offsets of a text are after some edits."""

    spans: tuple[tuple[int, int, int], ...]
    """Of each edit: start and end before, and the length of what it wrote."""

    @classmethod
    def of(cls, source: SourceText, edits: Sequence[TextEdit]) -> Moves:
        """Those of edits of a text."""
        spans = sorted(
            (
                source.offset(edit.span.line, edit.span.column),
                source.offset(edit.span.end_line, edit.span.end_column),
                len(edit.new_text),
            )
            for edit in edits
        )
        return cls(tuple(spans))

    def moved(self, offset: int) -> int | None:
        """The offset of what began here, None where it was replaced."""
        shift = 0
        for start, end, length in self.spans:
            if start <= offset < end:
                return None
            if end <= offset:
                shift += length - (end - start)
        return offset + shift

    def written(self) -> list[tuple[int, int]]:
        """The ranges of the new text that edits wrote."""
        ranges: list[tuple[int, int]] = []
        shift = 0
        for start, end, length in self.spans:
            ranges.append((start + shift, start + shift + length))
            shift += length - (end - start)
        return ranges


def check(before: SourceText, after: SourceText, edits: Sequence[TextEdit]) -> None:
    """Raises Corrupted where more changed than the edits say, or the file is not what it was around them."""
    if before.apply(edits).text != after.text:
        raise Corrupted("the edits do not give the text")
    try:
        data = after.encode()
    except UnicodeEncodeError as error:
        raise Corrupted(f"it cannot be saved: {error}") from error
    if SourceText.decode(after.path, data).text != after.text:
        raise Corrupted("it reads back as another text")
    moves = Moves.of(before, edits)
    _check_newlines(before, after)
    _check_tokens(before, after, moves)
    _check_structure(before, after, moves)


def undone(before: SourceText, after: SourceText, edits: Sequence[TextEdit]) -> bool:
    """Whether replacing what was written by what was there gives the first text back."""
    text = after.text
    pairs = sorted(
        zip(
            Moves.of(before, edits).written(),
            sorted(edits, key=lambda edit: (edit.span.line, edit.span.column)),
            strict=True,
        ),
        key=lambda pair: pair[0],
        reverse=True,
    )
    for (start, end), edit in pairs:
        text = text[:start] + edit.old_text + text[end:]
    return text == before.text


def _check_newlines(before: SourceText, after: SourceText) -> None:
    def kinds(text: str) -> Counter[str]:
        crlf = text.count("\r\n")
        return Counter({"\r\n": crlf, "\r": text.count("\r") - crlf, "\n": text.count("\n") - crlf})

    had, has = kinds(before.text), kinds(after.text)
    for kind in has:
        if has[kind] > had[kind] and not had[kind] and sum(had.values()):
            raise Corrupted(f"a line ends by {kind!r}, as none did before")


def _check_tokens(before: SourceText, after: SourceText, moves: Moves) -> None:
    written = moves.written()
    kept = [
        token.text
        for token in Tokens(before).all
        if token.kind not in _LAYOUT
        and token.text not in _PARTING
        and not any(token.start < end and start < token.end for start, end, _ in moves.spans)
    ]
    now = [
        token.text
        for token in Tokens(after).all
        if token.kind not in _LAYOUT
        and token.text not in _PARTING
        and not any(token.start < end and start < token.end for start, end in written)
    ]
    if kept != now:
        index = next(
            (i for i, (one, two) in enumerate(zip(kept, now, strict=False)) if one != two),
            min(len(kept), len(now)),
        )
        raise Corrupted(
            f"tokens outside the edits differ: {kept[index : index + 3]} / {now[index : index + 3]}"
        )


def _check_structure(before: SourceText, after: SourceText, moves: Moves) -> None:
    """Every statement that was there is still inside the same headers; new blocks around it do not count."""
    old, new = _statements(before), _statements(after)
    mapped = {offset: _place(moves, offset, new) for offset in old}
    there = {place for place in mapped.values() if place is not None}
    for offset, (kind, around) in old.items():
        place = mapped[offset]
        if place is None:
            continue
        if place not in new:
            raise Corrupted(f"a statement is gone: line {before.position(offset)[0]}")
        kind_now, around_now = new[place]
        if kind_now is not kind:
            raise Corrupted(f"line {before.position(offset)[0]} was {kind.__name__}, is {kind_now.__name__}")
        expected = [(mapped[each], part) for each, part in around if mapped[each] is not None]
        found = [(each, part) for each, part in around_now if each in there]
        if expected != found:
            raise Corrupted(f"line {before.position(offset)[0]} is in another block")


def _place(
    moves: Moves, offset: int, new: dict[int, tuple[type[ast.stmt], list[tuple[int, str]]]]
) -> int | None:
    """Where a statement begins now: before its old beginning where something was put in front of its first name."""
    place = moves.moved(offset)
    if place is None or place in new:
        return place
    fronts = [start for start, end in moves.written() if end == place]
    return max((start for start in new for front in fronts if front <= start < place), default=place)


def _statements(source: SourceText) -> dict[int, tuple[type[ast.stmt], list[tuple[int, str]]]]:
    """Each statement by its offset: what it is, and the statements around it with the part that holds it."""
    module = Module.of(source)
    starts = {node: offsets_of(source, node)[0] for node in module.nodes if isinstance(node, ast.stmt)}
    found: dict[int, tuple[type[ast.stmt], list[tuple[int, str]]]] = {}
    for node, start in starts.items():
        chain: list[tuple[int, str]] = []
        inner: ast.AST = node
        for around in module.around(node):
            if isinstance(around, ast.stmt):
                parts = (
                    name
                    for name in ("body", "orelse", "finalbody", "handlers")
                    if inner in getattr(around, name, [])
                )
                chain.append((starts[around], next(parts, "")))
            inner = around
        found[start] = (type(node), chain)
    return found
