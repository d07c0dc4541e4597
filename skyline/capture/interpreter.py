"""Which Python runs the script: the person's own, with their torch in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from skyline.errors import CaptureImpossible

NOT_FROM_HERE = "import sys; sys.path[:] = [entry for entry in sys.path if entry]\n"
"""First statement of what an interpreter is asked with ``-c``: nothing is imported from the working folder.

``-I`` would also leave out the person's own packages (``pip install --user``, ``PYTHONPATH``), which a script may use;
``-P`` is not there before Python 3.11.
"""
_PROBE = NOT_FROM_HERE + "import importlib.util; sys.exit(0 if importlib.util.find_spec('torch') else 3)"
_PROBE_TIMEOUT_S = 20.0


def resolve_interpreter(script: Path, asked: str | None) -> str:
    """The interpreter to run ``script`` with.

    In this order: the one asked for; the active environment; the nearest ``.venv`` or ``venv`` above the
    script; the one Skyline itself runs in; ``python3`` on the path. Of those not asked for by name, the first
    that has torch. Raises CaptureImpossible where none does.
    """
    if asked:
        path = shutil.which(asked)
        if path is None:
            raise CaptureImpossible(
                f"There is no interpreter {asked!r}",
                hint="Name an executable, as in --interpreter .venv/bin/python.",
            )
        return path
    candidates = _candidates(script)
    for candidate in candidates:
        if has_torch(candidate):
            return candidate
    tried = ", ".join(candidates)
    raise CaptureImpossible(
        f"PyTorch was found in none of these interpreters: {tried}",
        hint="Install it (pip install torch) in the script's environment, or name one with --interpreter.",
    )


def has_torch(interpreter: str) -> bool:
    """True if this interpreter can find torch, without importing it."""
    try:
        probe = subprocess.run(
            [interpreter, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0


def _candidates(script: Path) -> list[str]:
    found: list[str] = []

    def add(path: str | os.PathLike[str] | None) -> None:
        if path is not None and os.access(path, os.X_OK) and os.fspath(path) not in found:
            found.append(os.fspath(path))

    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if prefix := os.environ.get(variable):
            add(_python_in(Path(prefix)))
    for folder in script.resolve().parents:
        for name in (".venv", "venv"):
            add(_python_in(folder / name))
    add(sys.executable)
    add(shutil.which("python3"))
    add(shutil.which("python"))
    return found


def _python_in(prefix: Path) -> Path | None:
    for relative in ("bin/python", "Scripts/python.exe"):
        if (prefix / relative).is_file():
            return prefix / relative
    return None
