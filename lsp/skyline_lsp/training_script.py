"""Recognises training scripts from their source text."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from skyline.errors import SkylineError
from skyline.source.text import SourceText, last_name
from skyline.source.training_loop import find

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
