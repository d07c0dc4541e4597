"""Storing an entry in the ledger; a failure does not stop the verification."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from skyline.ledger.entry import LedgerEntry
from skyline.ledger.ledger import Ledger, LedgerUnusable


class Kept:
    """An entry and its ledger (None: not stored); ``problem`` is the reason if storing failed."""

    def __init__(self, ledger: Ledger | None, entry: LedgerEntry) -> None:
        self._ledger = ledger
        self.problem = ""
        self.put(entry)

    @property
    def path(self) -> str:
        """The file with the entry; empty if it is not stored."""
        return "" if self._ledger is None or self.problem else str(self._ledger.path)

    def put(self, entry: LedgerEntry) -> None:
        """Store the current entry, with the time of the change."""
        self.entry = replace(entry, changed=now())
        if self._ledger is None or self.problem:
            return
        try:
            self._ledger.write(self.entry)
        except LedgerUnusable as error:
            self.problem = f"{error.message}. {error.hint}".strip()


def now() -> str:
    """The current time, ISO 8601 with the time zone."""
    return datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")
