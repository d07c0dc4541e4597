"""Opens a file at a line in the person's editor."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

_AT_FILE_COLON_LINE = {"hx", "helix", "subl", "zed", "kak"}
_WITH_GOTO = {"code", "code-insiders", "codium", "cursor"}
_FALLBACKS = ("nvim", "vim", "nano", "vi")


def editor_command(
    file: str, line: int, environment: Mapping[str, str] | None = None
) -> tuple[str, ...] | None:
    """$VISUAL, $EDITOR, or an editor that is there; None where there is none.

    Editors that are not known are given ``+LINE``, which most terminal editors take.
    """
    environment = os.environ if environment is None else environment
    wanted = (
        environment.get("VISUAL") or environment.get("EDITOR") or next(filter(shutil.which, _FALLBACKS), "")
    )
    command = shlex.split(wanted)
    if not command:
        return None
    name = Path(command[0]).stem
    if name in _AT_FILE_COLON_LINE:
        return (*command, f"{file}:{line}")
    if name in _WITH_GOTO:
        # Without waiting the terminal comes back at once, which is what one wants beside a window.
        return (*command, "--goto", f"{file}:{line}")
    return (*command, f"+{line}", file)


def edit(app: App[Any], file: str, line: int) -> str:
    """Give the terminal to the editor until it is left; returns what went wrong, in words, or nothing."""
    command = editor_command(file, line)
    if command is None:
        return "Set $EDITOR to the editor you want."
    try:
        with app.suspend():
            subprocess.run(command, check=False)
    except SuspendNotSupported:
        return "This terminal cannot be lent to an editor."
    except OSError as error:
        return f"{command[0]}: {error.strerror or error}"
    return ""
