"""The start of a script: as a file, as a module (``-m``), or through programs that start it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.errors import UsageError
from skyline.launchers.accelerate import accelerate, accelerate_launch
from skyline.launchers.asked import Asked
from skyline.launchers.deepspeed import deepspeed
from skyline.launchers.environments import environment_run, is_environment_command
from skyline.launchers.torchrun import torchrun
from skyline.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from skyline.capture.request import CaptureRequest

_Reader = Callable[[Sequence[str], Path], Asked]
_PROGRAMS: Mapping[str, _Reader] = {
    "torchrun": torchrun,
    "accelerate": accelerate,
    "accelerate-launch": accelerate_launch,
    "deepspeed": deepspeed,
}
_MODULES: Mapping[str, _Reader] = {
    "torch.distributed.run": torchrun,
    "torch.distributed.launch": torchrun,
    "accelerate.commands.launch": accelerate_launch,
    "deepspeed.launcher.runner": deepspeed,
}
_PYTHON = re.compile(r"python(3(\.\d+)?)?")


@dataclass(frozen=True, slots=True)
class Launch:
    """``script`` is empty if ``module`` names it. ``ranks`` None: the number is not given.

    ``variables`` are added to the environment of the script. ``interpreter`` None: no launcher chose one.
    ``first`` are the ``arguments`` that a launcher puts before the typed ones.
    """

    script: str
    module: str
    arguments: tuple[str, ...]
    ranks: int | None = None
    variables: tuple[tuple[str, str], ...] = ()
    interpreter: str | None = None
    first: tuple[str, ...] = ()

    @property
    def typed(self) -> tuple[str, ...]:
        """The arguments of the script, as typed."""
        return self.arguments[len(self.first) :]


def launched(request: CaptureRequest, launch: Launch) -> CaptureRequest:
    """The request with the ranks, the interpreter and the variables of a launcher.

    The request's own interpreter and variables take precedence over the launcher's.
    """
    return replace(
        request,
        ranks=launch.ranks or request.ranks,
        interpreter=request.interpreter or launch.interpreter,
        variables=tuple({**dict(launch.variables), **dict(request.variables)}.items()),
    )


def launch_of(words: Sequence[str], folder: Path | None = None) -> Launch:
    """Reads ``SCRIPT ARGS…``, ``-m MODULE ARGS…``, ``python SCRIPT ARGS…`` or the words of a launcher.

    ``folder`` is the working directory of the command (None: the current one). Launchers of environments,
    such as ``uv run``, are started, which may take minutes. Raises UsageError for words that cannot be read.
    """
    where = folder or Path.cwd()
    if not words:
        raise UsageError("There is no script to profile", hint="Name one: skyline profile train.py")
    first, rest = words[0], tuple(words[1:])
    if first in {"-m", "--module"}:
        if not rest:
            raise UsageError(
                "-m needs the name of a module", hint="Example: skyline profile -m package.train"
            )
        if rest[0] in _MODULES:
            return _below(_MODULES[rest[0]](rest[1:], where), where)
        return Launch("", rest[0], rest[1:])
    program = Path(first).name
    if _PYTHON.fullmatch(program):
        return _python(rest, where)
    if program in _PROGRAMS:
        return _below(_PROGRAMS[program](rest, where), where)
    if is_environment_command(program, rest[:1]):
        return _below(environment_run(first, rest, where), where)
    return Launch(first, "", rest)


def is_launcher(words: Sequence[str]) -> bool:
    """True if a command begins with a program that starts scripts, such as ``torchrun`` or ``uv run``."""
    program = Path(words[0]).name if words else ""
    return (
        program in _PROGRAMS
        or _PYTHON.fullmatch(program) is not None
        or is_environment_command(program, words[1:2])
    )


def _below(asked: Asked, folder: Path) -> Launch:
    """The launch of the command after a launcher; words nearer to the script take precedence."""
    inner = launch_of(asked.words, folder)
    return replace(
        inner,
        arguments=(*asked.first, *inner.arguments),
        ranks=asked.ranks if inner.ranks is None else inner.ranks,
        variables=(*asked.variables, *inner.variables),
        interpreter=inner.interpreter or asked.interpreter,
        first=(*asked.first, *inner.first),
    )


def _python(words: Sequence[str], folder: Path) -> Launch:
    """Reads the script or module after ``python``; the child runs it with Skyline's own choice of interpreter."""
    index = 0
    while index < len(words) and words[index] == "-u":
        index += 1
    rest = words[index:]
    if rest and rest[0].startswith("-") and rest[0] != "-m":
        raise UsageError(
            f"python {rest[0]} cannot be profiled",
            hint="Only the options -u and -m are supported after python.",
        )
    return launch_of(rest, folder)
