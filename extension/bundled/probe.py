"""Says, as one line of JSON, what an interpreter has that Skyline needs. Any Python 3 runs it."""

import importlib.util
import json
import os
import sys

from interpreter_fit import misfit

sys.path.pop(0)  # The folder of this file; what lies in it is not part of the environment.


def version_of(distribution):
    """The version as the package's metadata tells it; None where it is not installed."""
    try:
        from importlib.metadata import version
    except ImportError:
        return None
    try:
        return version(distribution)
    except Exception:
        return None


def has(module):
    """Whether a module can be imported, without importing it."""
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
