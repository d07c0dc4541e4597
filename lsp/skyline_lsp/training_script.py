"""Recognises training scripts from their source text."""

from __future__ import annotations

import ast
import asyncio
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from skyline.errors import SkylineError
from skyline.lazy_dataclass import dataclass
from skyline.source.line_map import line_map
from skyline.source.text import SourceText, last_name
from skyline.source.training_loop import find

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer


_PASSES = re.compile(r"\.(?:backward|manual_backward|step)\s*\(")
_FITS = re.compile(r"\btrainer\w*\.(?:fit|train)\s*\(|\bTrainer\([^)]*\)\.(?:fit|train)\s*\(")
"""Trainer calls of Lightning and Transformers, whose scripts contain no training loop."""
_WORKING = frozenset({"fit", "train", "main", "run"})
_PREPARING = re.compile(
    "append|basicConfig|extend|filterwarnings|insert|load_dotenv|manual_seed(_all)?|register|seed|setLevel"
    "|set_num_threads|set_start_method|setdefault|simplefilter|update|use"
)
"""Calls that modules also make at import."""
# Statements that only define names.
_DEFINITIONS = (
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.AugAssign,
    ast.Pass,
    ast.Delete,
    ast.Assert,
)


@lru_cache(maxsize=64)
def training_loop(text: SourceText) -> int | None:
    """The line of the training loop, found without running the script. None if there is none."""
    try:
        header = find(text)
    except SkylineError:
        # The text is often not valid Python while the user types.
        return None
    return header.line if header else None


def trains(text: SourceText) -> bool:
    """True if a source has a training loop or calls a library's trainer."""
    if _FITS.search(text.text):
        return True
    return bool(_PASSES.search(text.text)) and training_loop(text) is not None


@lru_cache(maxsize=512)
def is_program(text: str) -> bool:
    """True if running a source does more than define names: it has a loop, a call or a ``__main__`` block.

    Also true if the source cannot be parsed at the moment.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return True
    return any(_acts(statement) for statement in tree.body)


def _acts(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=function)):
            return _PREPARING.fullmatch(last_name(function)) is None
        case ast.Expr():
            return False
        case ast.Assign(value=ast.Call(func=function)) | ast.AnnAssign(value=ast.Call(func=function)):
            return last_name(function) in _WORKING
        case ast.Assign() | ast.AnnAssign():
            return False
        case ast.If(test=test, body=body, orelse=orelse):
            return "__main__" in ast.unparse(test) or any(map(_acts, (*body, *orelse)))
        case ast.Try(body=body, orelse=orelse):
            return any(map(_acts, (*body, *orelse)))
        case _:
            return not isinstance(statement, _DEFINITIONS)


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
