"""The user's consent to live mode, in which trying a change writes it into the code. The user is asked once."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_NAME = "live-mode-agreed"


def consent_file() -> Path:
    """``skyline/live-mode-agreed`` in the user's data folder."""
    given = os.environ.get("XDG_DATA_HOME", "")
    data = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "share"
    return data / "skyline" / _NAME


class LiveConsent:
    """The consent, stored as a file. If the file cannot be written, the consent lasts for this session."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or consent_file()
        self._given = self._path.exists()

    @property
    def given(self) -> bool:
        """True if the user has agreed, now or earlier."""
        return self._given

    def give(self) -> None:
        """Record the consent."""
        self._given = True
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch()
