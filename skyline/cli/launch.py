"""The way a script starts: as a file, as a module (``-m``), or as one of several ranks of torchrun."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skyline.errors import UsageError

_TORCHRUN_MODULES = {"torch.distributed.run", "torch.distributed.launch"}
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_FLAGS = {"--standalone", "--no-python", "--use-env", "--use_env"}


@dataclass(frozen=True, slots=True)
class Launch:
    """``script`` is empty where ``module`` names it. ``ranks`` None: nothing was said of it."""

    script: str
    module: str
    arguments: tuple[str, ...]
    ranks: int | None = None


def launch_of(words: Sequence[str]) -> Launch:
    """Read ``SCRIPT ARGS…``, ``-m MODULE ARGS…`` ``python SCRIPT ARGS…`` or ``torchrun …``."""
    if not words:
        raise UsageError("There is no script to profile", hint="Name one: skyline profile train.py")
    first, rest = words[0], tuple(words[1:])
    if first in {"-m", "--module"}:
        if not rest:
            raise UsageError("-m needs the name of a module", hint="As in: skyline profile -m package.train")
        if rest[0] in _TORCHRUN_MODULES:
            return _torchrun(rest[1:])
        return Launch("", rest[0], rest[1:])
    if _PYTHON.fullmatch(Path(first).name):
        return _python(rest)
    if Path(first).name == "torchrun":
        return _torchrun(rest)
    return Launch(first, "", rest)


def _python(words: Sequence[str]) -> Launch:
    """Read the script or module after ``python``; the child runs it with Skyline's own choice of interpreter."""
    index = 0
    while index < len(words) and words[index] == "-u":
        index += 1
    rest = words[index:]
    if rest and rest[0].startswith("-") and rest[0] != "-m":
        raise UsageError(f"python {rest[0]} cannot be profiled", hint="Only -u and -m are read after python.")
    return launch_of(rest)


def _torchrun(words: Sequence[str]) -> Launch:
    """The script that torchrun would start; Skyline starts the ranks itself, all on this machine."""
    ranks, index = 1, 0
    while index < len(words) and words[index].startswith("-"):
        if words[index] in {"-m", "--module"}:
            inner = launch_of(words[index:])
            return Launch(inner.script, inner.module, inner.arguments, ranks)
        name, equals, value = words[index].partition("=")
        name = name.replace("_", "-")
        if name in _FLAGS:
            index += 1
            continue
        if not equals:
            index += 1
            value = words[index] if index < len(words) else ""
        index += 1
        if name == "--nproc-per-node":
            ranks = _number(name, value)
        elif name == "--nnodes" and value not in {"1", "1:1"}:
            raise UsageError(
                "Only training on one machine can be profiled", hint="Run it here with --nnodes 1."
            )
    inner = launch_of(words[index:])
    return Launch(inner.script, inner.module, inner.arguments, ranks)


def _number(name: str, value: str) -> int:
    if not value.isdigit() or int(value) < 1:
        raise UsageError(f"{name} {value}: a number of processes is needed here", hint=f"As in {name} 2.")
    return int(value)
