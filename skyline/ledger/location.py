"""The location of the ledger: one file for all projects, in the user's data directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DIRECTORY_VARIABLE = "SKYLINE_DATA_DIR"
_NAME = "ledger.sqlite3"


def ledger_path() -> Path:
    """``SKYLINE_DATA_DIR`` if set, else the system's usual place for a user's data."""
    named = os.environ.get(DIRECTORY_VARIABLE)
    if named:
        return Path(named) / _NAME
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "skyline" / _NAME
    # The XDG base directory specification requires relative paths to be ignored.
    given = os.environ.get("XDG_DATA_HOME", "")
    data = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "share"
    return data / "skyline" / _NAME
