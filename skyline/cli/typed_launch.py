"""A launcher typed before the script, such as ``torchrun``, kept in the options of a command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.errors import UsageError

if TYPE_CHECKING:
    from skyline.launchers.launch import Launch


def read_launch(words: Sequence[str], options: argparse.Namespace) -> tuple[Path, Launch]:
    """The script of a typed command, and the way it starts, which ``request_of`` finds in the options."""
    from skyline.launchers.launch import launch_of

    launch = launch_of(words)
    keep_launch(options, launch)
    return launched_script(launch, options.interpreter), launch


def launched_script(launch: Launch, interpreter: str | None = None) -> Path:
    """The file that a launch runs; a module's is looked for from here."""
    if launch.script:
        return Path(launch.script)
    from skyline.capture.interpreter import module_file, resolve_interpreter

    here = Path.cwd()
    try:
        return module_file(launch.module, here)
    except UsageError:
        python = interpreter or launch.interpreter
        return module_file(launch.module, here, resolve_interpreter(here / "__main__.py", python))


def keep_launch(options: argparse.Namespace, launch: Launch | None) -> None:
    """Put a typed launch into the options. Its interpreter goes before the project's."""
    options.launch = launch
    if launch is not None:
        options.interpreter = options.interpreter or launch.interpreter
