"""Which scripts the person has had profiled from an editor, in this session or an earlier one.

Saving such a script measures it again. That is kept in the person's data directory, not beside the script: a folder
that somebody else made cannot claim it.
"""

from __future__ import annotations

import logging
from pathlib import Path

from skyline.ledger.location import ledger_path

logger = logging.getLogger(__name__)

_NAME = "profiled-in-editors.txt"
_MOST = 2000


class Remembered:
    """Paths of scripts, one a line, the latest last; a file that cannot be read or written is as good as empty."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or ledger_path().with_name(_NAME)
        self._paths: dict[str, None] | None = None

    def __contains__(self, script: str) -> bool:
        return script in self._known()

    def add(self, script: str) -> None:
        """Remember a script."""
        known = self._known()
        # A path with a newline in it would be two.
        if script in known or "\n" in script:
            return
        known[script] = None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if len(known) > _MOST:
                kept = list(known)[-_MOST // 2 :]
                self._paths = dict.fromkeys(kept)
                self._path.write_text("".join(f"{one}\n" for one in kept), encoding="utf-8")
            else:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(f"{script}\n")
        except (OSError, UnicodeError) as error:
            logger.warning("cannot keep in mind that %s was profiled: %s", script, error)

    def _known(self) -> dict[str, None]:
        if self._paths is None:
            try:
                self._paths = dict.fromkeys(self._path.read_text(encoding="utf-8").splitlines())
            except (OSError, UnicodeError):
                self._paths = {}
        return self._paths
