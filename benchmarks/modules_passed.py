"""The modules of the product that one request passes: a measure of how many places a reader has to know.

A module is passed if one of its functions is entered after start: module bodies, class bodies and what they call while
a module is imported are excluded, and so are methods that Python generates. Three requests run on a CPU:

- ``profile``: ``skyline profile SCRIPT``, the process that the person starts, without the training process.
- the drag: ``skyline/simulate`` with another batch size and ``amp``, on a language server with a loaded profile.
- ``whatif amp``: ``skyline whatif PROFILE amp``.
"""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from skyline.cli.main import main as skyline

REPOSITORY = Path(__file__).resolve().parent.parent
_ROOTS = tuple(f"{REPOSITORY / root}/" for root in ("skyline", "lsp", "tui", "predictors"))
_EARLIER = {"profile": 0, "drag": 0, "whatif amp": 112}


@contextlib.contextmanager
def passed() -> Iterator[set[str]]:
    """The files of the product in which a function is entered meanwhile, by any thread."""
    files: set[str] = set()
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code in seen or not code.co_filename.startswith(_ROOTS):
            return
        if _while_importing(frame):
            return
        seen.add(code)
        files.add(code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _while_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(_ROOTS):
            return True
        frame = frame.f_back
    return False


def command(*arguments: str) -> set[str]:
    """The files that a command of ``skyline`` passes. Raises RuntimeError where it fails."""
    with contextlib.redirect_stdout(io.StringIO()), passed() as files:
        code = skyline(arguments)
    if code:
        raise RuntimeError(f"skyline {' '.join(arguments)} ended with {code}")
    return files
