"""Settings in ``[tool.skyline]`` of the script's project, for options that the command line does not set."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from skyline.cli.streams import say
from skyline.errors import UsageError


def host_in_force(options: argparse.Namespace, script: Path) -> str | None:
    """The host for ``skyline profile``: the one given as an option, or else the project's. None: this machine.

    A prediction for a GPU needs no host. Raises UsageError for contradictory options.
    """
    if options.here:
        if options.host is not None:
            raise UsageError("--host and --here contradict each other", hint="Use only one of them.")
        return None
    if options.host is not None:
        return options.host
    from skyline.settings.pyproject import project_settings

    source = project_settings(script.absolute().parent)
    values: Mapping[str, object] = {} if source is None else source.values
    predicted = options.gpu or (options.device is None and values.get("gpu"))
    host = values.get("profile.host")
    return host if isinstance(host, str) and not predicted else None


def fill_in(options: argparse.Namespace, script: Path, *, gpu: bool = False) -> None:
    """Use the project's settings for options that were not given. A second call changes nothing.

    The project cannot set the script's arguments, because the script runs exactly as typed. With ``gpu`` the project
    may also request a prediction instead of a run, which not every command supports.
    """
    from skyline.settings.pyproject import project_settings

    source = project_settings(script.absolute().parent)
    if source is None:
        options.variables = {}
        return
    if not hasattr(options, "variables"):
        for problem in source.problems:
            say(f"skyline: {problem}", quiet=options.quiet)
    values = source.values
    if gpu and options.gpu is None and options.device is None:
        options.gpu = values.get("gpu")
    for option, key in (
        ("interpreter", "interpreter"),
        ("device", "profile.device"),
        ("steps", "profile.steps"),
        ("timeout", "profile.timeoutS"),
        ("budget", "profile.budgetS"),
    ):
        if getattr(options, option) is None:
            setattr(options, option, values.get(key))
    options.variables = values.get("profile.env", {})
