"""Prints one line of JSON about the interpreter and its packages that Skyline needs. Runs on any Python 3."""

import importlib.util
import json
import os
import sys

from interpreter_fit import misfit

sys.path.pop(0)  # The folder of this file: its modules are not part of the environment.


def version_of(distribution):
    """The version in the package's metadata. None if there is no metadata."""
    try:
        from importlib.metadata import version
    except ImportError:
        return None
    try:
        return version(distribution)
    except Exception:
        return None


def has(module):
    """True if the module is found, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


print(
    json.dumps(
        {
            "executable": sys.executable,
            "version": "%d.%d.%d" % sys.version_info[:3],
            "prefix": os.path.basename(sys.prefix),
            "torch": (version_of("torch") or "unknown") if has("torch") else None,
            "skyline": (version_of("skyline-profiler") or "unknown") if has("skyline_lsp") else None,
            "misfit": misfit(),
        }
    )
)
