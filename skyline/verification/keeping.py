"""An entry on its way into the ledger: what cannot be written down does not stop a verification."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from skyline.ledger.entry import LedgerEntry
from skyline.ledger.ledger import Ledger, LedgerUnusable


class Kept:
    """An entry and the ledger it is in, None for none; ``problem`` says why it is not kept, where that failed."""

    def __init__(self, ledger: Ledger | None, entry: LedgerEntry) -> None:
        self._ledger = ledger
        self.problem = ""
        self.put(entry)

    @property
    def path(self) -> str:
        """Where the entry is kept, empty where it is not."""
        return "" if self._ledger is None or self.problem else str(self._ledger.path)

    def put(self, entry: LedgerEntry) -> None:
        """The entry as it is now, with the time of the change."""
        self.entry = replace(entry, changed=now())
        if self._ledger is None or self.problem:
            return
        try:
            self._ledger.write(self.entry)
        except LedgerUnusable as error:
            self.problem = f"{error.message}. {error.hint}".strip()


def now() -> str:
    """The present time, ISO 8601 with the time zone."""
    return datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")
