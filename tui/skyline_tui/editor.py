"""Opens a file at a line in the user's editor."""

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
    """The command of $VISUAL, $EDITOR or an installed editor; None without one.

    Unknown editors get ``+LINE``, which most terminal editors support.
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
        # Without waiting, the terminal returns immediately, as needed for an editor with its own window.
        return (*command, "--goto", f"{file}:{line}")
    return (*command, f"+{line}", file)


def edit(app: App[Any], file: str, line: int) -> str:
    """Give the terminal to the editor until it exits; returns an error message, or an empty text."""
    command = editor_command(file, line)
    if command is None:
        return "Set $EDITOR to your editor."
    try:
        with app.suspend():
            subprocess.run(command, check=False)
    except SuspendNotSupported:
        return "This terminal does not support opening an editor."
    except OSError as error:
        return f"{command[0]}: {error.strerror or error}"
    return ""
