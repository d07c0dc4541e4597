"""``uv run``, ``poetry run``, ``conda run`` and the like: a command in the environment of a tool."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from skyline.errors import UsageError
from skyline.launchers.asked import Asked, options_with_values

_TIMEOUT_S = 300.0
_ASK = "import json, os, sys; print(); print(json.dumps([sys.executable, dict(os.environ)]))"
_OF_THE_SHELL = {"_", "PWD", "OLDPWD", "SHLVL", "PS1"}

VALUED: Mapping[str, frozenset[str]] = {
    "uv": frozenset({
        "-p", "--python", "--with", "--with-editable", "--with-requirements", "-w", "--extra", "--no-extra",
        "--group", "--no-group", "--only-group", "--env-file", "--package", "--project", "--directory",
        "--index", "--default-index", "-i", "--index-url", "--extra-index-url", "-f", "--find-links",
        "--cache-dir", "--config-file", "--color", "--resolution", "--prerelease", "--fork-strategy", "-P",
        "--upgrade-package", "--refresh-package", "--reinstall-package", "--index-strategy",
        "--keyring-provider", "--link-mode", "--exclude-newer", "-C", "--config-setting", "--torch-backend",
        "--no-build-package", "--no-binary-package", "--no-build-isolation-package", "--python-platform",
        "--allow-insecure-host", "--no-editable-package", "--no-sources-package",
    }),
    "poetry": frozenset({"-C", "--directory", "-P", "--project"}),
    "pdm": frozenset({"-p", "--project"}),
    "pipenv": frozenset(),
    "conda": frozenset({"-n", "--name", "-p", "--prefix", "--cwd"}),
    "mamba": frozenset({"-n", "--name", "-p", "--prefix", "--cwd"}),
    "micromamba": frozenset(
        {"-n", "--name", "-p", "--prefix", "--cwd", "-r", "--root-prefix", "-e", "--env"}
    ),
    "pixi": frozenset({"-e", "--environment", "--manifest-path", "--color", "--platform"}),
}  # fmt: skip
"""Options of each tool that take a value. All other options before the command are flags."""


def is_environment_command(tool: str, words: Sequence[str]) -> bool:
    """True for ``TOOL run …`` of a known tool."""
    return tool in VALUED and list(words[:1]) == ["run"]


def environment_run(program: str, words: Sequence[str], folder: Path) -> Asked:
    """The command after ``TOOL run`` in ``folder``, with the tool's interpreter and variables.

    The tool runs its Python with the same options, which prints both.
    """
    tool = Path(program).name
    options = options_with_values(words[1:], VALUED[tool])
    count = len(words) - len(options.rest)
    given = [word for word in words[:count] if word != "--"]
    if any(name in options.values for name in ("--cwd", "--directory", "-C")):
        raise UsageError(
            f"{tool} run has an option that changes the folder, and a profile does not support it",
            hint="Change to that folder first, and omit the option.",
        )
    interpreter, variables = _told([program, *given], folder)
    return Asked(options.rest, variables=variables, interpreter=interpreter)


def _told(prefix: Sequence[str], folder: Path) -> tuple[str, tuple[tuple[str, str], ...]]:
    shown = " ".join(prefix)
    program = shutil.which(prefix[0])
    if program is None:
        raise UsageError(
            f"{prefix[0]} is not on the PATH",
            hint="Install it, or name the interpreter: skyline profile --interpreter .venv/bin/python train.py",
        )
    try:
        answer = subprocess.run(
            [program, *prefix[1:], "python", "-c", _ASK],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"`{shown}` did not answer: {error}", hint="Run this command without Skyline first."
        ) from error
    lines = answer.stdout.strip().splitlines()
    if answer.returncode != 0 or not lines:
        said = answer.stderr.strip().splitlines()
        message = f"`{shown} python` failed: {said[-1] if said else f'status {answer.returncode}'}"
        raise UsageError(message, hint="Run this command without Skyline first.")
    interpreter, environment = json.loads(lines[-1])
    return interpreter, _news(environment)


def _news(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, value)
        for name, value in environment.items()
        if name not in _OF_THE_SHELL and os.environ.get(name) != value
    )
