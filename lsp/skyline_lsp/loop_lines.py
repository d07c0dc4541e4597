"""Tracks the line of the training loop of each file, also while the user types in a large file."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skyline.source.line_map import line_map
from skyline.source.text import SourceText
from skyline_lsp.training_script import training_loop

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer

_LARGE = 20_000
"""File size in characters from which searching for the loop at every keystroke would be noticeable."""
_REST_S = 0.4


@dataclass(frozen=True, slots=True)
class _KnownLoops:
    text: SourceText
    line: int | None


class LoopLines:
    """The line of each file's training loop. None if it has none."""

    def __init__(self, server: SkylineServer) -> None:
        self._server = server
        self._known: dict[str, _KnownLoops] = {}
        self._waiting: dict[str, tuple[str, asyncio.TimerHandle]] = {}

    def at(self, text: SourceText) -> int | None:
        """The loop's line in this text. Just after an edit of a large text, the earlier line, moved with the edit."""
        known = self._known.get(text.path)
        if known is None or len(text.text) < _LARGE:
            return self._look(text)
        if known.text.text != text.text:
            self._wait(text)
        if known.line is None:
            return None
        return line_map(known.text.text, text.text).nearest(known.line)

    def _wait(self, text: SourceText) -> None:
        waiting = self._waiting.get(text.path)
        if waiting is not None:
            if waiting[0] == text.text:
                return
            waiting[1].cancel()
        timer = asyncio.get_running_loop().call_later(_REST_S, self._rested, text.path)
        self._waiting[text.path] = (text.text, timer)

    def _look(self, text: SourceText) -> int | None:
        line = training_loop(text)
        self._known[text.path] = _KnownLoops(text, line)
        return line

    def _rested(self, path: str) -> None:
        self._waiting.pop(path, None)
        text, known = self._server.texts.shown(path), self._known.get(path)
        if text is None or known is None:
            return
        before = known.line and line_map(known.text.text, text.text).nearest(known.line)
        if self._look(text) != before:
            self._server.refresher.lenses()
