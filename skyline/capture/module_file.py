"""Where the source of a module lies that is to be run by its name."""

from __future__ import annotations

import subprocess
from pathlib import Path

from skyline.capture.interpreter import NOT_FROM_HERE
from skyline.errors import UsageError

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
    """The file that ``python -m name`` would run in ``directory``. Raises UsageError where there is none.

    Only where the folder does not have it is the interpreter asked, since that imports the packages around it.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{name!r} is not the name of a module", hint="As in: -m package.train")
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
