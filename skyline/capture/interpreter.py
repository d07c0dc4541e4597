"""Finds the Python that runs the script (the user's own, with their torch), and the file that ``-m`` names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from skyline.errors import CaptureImpossible, UsageError

NOT_FROM_HERE = "import sys; sys.path[:] = [entry for entry in sys.path if entry]\n"
"""First statement of code that an interpreter runs with ``-c``: nothing is imported from the working folder.

``-I`` would also exclude the user's own packages (``pip install --user``, ``PYTHONPATH``), which a script may use.
``-P`` does not exist before Python 3.11.
"""
_PROBE = NOT_FROM_HERE + "import importlib.util; print(importlib.util.find_spec('torch').origin)"
_PROBE_TIMEOUT_S = 20.0
_FOUND: dict[tuple[str, str | None], str] = {}
"""Path of torch by interpreter and ``PYTHONPATH``. It is cached, since a server needs it at every save."""


def resolve_interpreter(script: Path, asked: str | None) -> str:
    """The interpreter to run ``script`` with.

    The order of preference: the interpreter ``asked`` for; the active environment; the nearest ``.venv`` or ``venv``
    above the script; the interpreter of Skyline itself; ``python3`` on the path. Unless it is asked for by name, it
    must have torch. Raises CaptureImpossible if none has.
    """
    if asked:
        path = shutil.which(asked)
        if path is None:
            raise CaptureImpossible(
                f"There is no interpreter {asked!r}",
                hint="Name an executable, for example --interpreter .venv/bin/python.",
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
    asked = interpreter, os.environ.get("PYTHONPATH")
    if os.access(interpreter, os.X_OK) and os.path.exists(_FOUND.get(asked, "")):
        return True
    try:
        probe = subprocess.run(
            [interpreter, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    if probe.returncode == 0:
        _FOUND[asked] = os.fsdecode(probe.stdout).strip().rpartition("\n")[2]
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


_TIMEOUT_S = 60.0
_ASK = (
    NOT_FROM_HERE
    + """
import importlib.util
sys.path.insert(0, "")
spec = importlib.util.find_spec(sys.argv[1])
if spec is not None and spec.submodule_search_locations is not None:
    spec = importlib.util.find_spec(sys.argv[1] + ".__main__")
print(spec.origin if spec is not None else "")
"""
)


def module_file(name: str, directory: Path, interpreter: str | None = None) -> Path:
    """The file that ``python -m name`` would run in ``directory``. Raises UsageError if there is none.

    The interpreter is asked only if the folder does not have the file, since that imports the parent packages.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{name!r} is not the name of a module", hint="Example: -m package.train")
    stem = directory.joinpath(*name.split("."))
    for path in (stem / "__main__.py", stem.with_name(stem.name + ".py")):
        if path.is_file():
            return path
    found = _asked(name, directory, interpreter) if interpreter else ""
    if found.endswith(".py") and Path(found).is_file():
        return Path(found)
    if stem.is_dir():
        raise UsageError(
            f"{name} is a package without a __main__ module", hint=f"Name the module in it: -m {name}.train"
        )
    raise UsageError(f"There is no module {name} here", hint="Run it from the folder that holds its package.")


def _asked(name: str, directory: Path, interpreter: str) -> str:
    try:
        answer = subprocess.run(
            [interpreter, "-c", _ASK, name],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = answer.stdout.strip().splitlines()
    return lines[-1] if answer.returncode == 0 and lines else ""
