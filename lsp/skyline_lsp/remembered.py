"""The user's consents to profiling on save, by script and branch, with the time of each.

They are stored in the user's data directory, not beside the script: a folder that somebody else created must not be
able to claim consent.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from skyline.bounded_read import read_bounded
from skyline.ledger.location import ledger_path
from skyline.source.checkout import Checkout

logger = logging.getLogger(__name__)

CONSENT_DAYS = 30
_DAY_S = 24 * 3600
_NAME = "profiled-in-editors.txt"
_MOST = 2000
_MOST_BYTES = 1 << 24


class Consent(msgspec.Struct, frozen=True, omit_defaults=True):
    """Consent to measure a script on save while this is checked out.

    ``branch`` and ``commit`` are empty in a folder without git.
    """

    script: str
    branch: str = ""
    commit: str = ""
    given_s: float = 0.0
    """Seconds since the epoch. 0: given to a version that did not store the time."""

    @property
    def checkout(self) -> Checkout:
        """The checkout that the consent was given for."""
        return Checkout(self.branch, self.commit)


class Remembered:
    """Consents as JSON, one per line, latest last. An unreadable file counts as empty.

    A line of an earlier version is the path of a profiled script. Its consent has expired.
    """

    def __init__(self, path: Path | None = None, now_s: Callable[[], float] = time.time) -> None:
        self._path = path or ledger_path().with_name(_NAME)
        self._now_s = now_s
        self._stamp: tuple[int, int] | None = None
        self._consents: dict[tuple[str, Checkout], Consent] = {}

    def __contains__(self, script: str) -> bool:
        """True if the user has ever had the script profiled."""
        return self.latest(script) is not None

    def latest(self, script: str) -> Consent | None:
        """The latest consent for a script, expired or not."""
        given = [consent for consent in self._known().values() if consent.script == script]
        # Ties within one second go to the later entry.
        return max(reversed(given), key=lambda consent: consent.given_s, default=None)

    def holds(self, script: str, checkout: Checkout) -> bool:
        """True if a save may measure the script on this checkout now."""
        consent = self._known().get((script, checkout))
        # If the clock was set back, the time lies in the future: the consent must still expire.
        return consent is not None and abs(self._now_s() - consent.given_s) < CONSENT_DAYS * _DAY_S

    def add(self, script: str, checkout: Checkout) -> None:
        """Record a consent given now."""
        consent = Consent(script, checkout.branch, checkout.commit, round(self._now_s()))
        known = self._known()
        before = known.get((script, checkout))
        if before is not None and abs(consent.given_s - before.given_s) < _DAY_S:
            # Keep the file from growing with every profile of a day.
            return
        # Keep the latest last: the oldest are dropped first.
        known.pop((script, checkout), None)
        known[script, checkout] = consent
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if len(known) > _MOST:
                self._consents = dict(list(known.items())[-_MOST // 2 :])
                self._path.write_bytes(b"".join(_line(kept) for kept in self._consents.values()))
            else:
                with self._path.open("ab") as file:
                    file.write(_line(consent))
        except (OSError, UnicodeError) as error:
            logger.warning("cannot store the consent to profile %r on save: %s", script, error)

    def _known(self) -> dict[tuple[str, Checkout], Consent]:
        """Consents from the file, read again if another server wrote to it, and those that could not be written."""
        try:
            status = os.stat(self._path)
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp != self._stamp and status.st_size <= _MOST_BYTES:
                for line in filter(None, read_bounded(self._path, _MOST_BYTES).splitlines()):
                    self._take(line)
                self._stamp = stamp
        except OSError:
            pass
        return self._consents

    def _take(self, line: bytes) -> None:
        try:
            found = msgspec.json.decode(line, type=Consent) if line[:1] == b"{" else Consent(line.decode())
        except (msgspec.MsgspecError, UnicodeError):
            logger.warning("ignored a line of %s: %.80r", self._path, line)
            return
        key = (found.script, found.checkout)
        known = self._consents.get(key)
        if known is None or found.given_s >= known.given_s:
            self._consents.pop(key, None)
            self._consents[key] = found


def _line(consent: Consent) -> bytes:
    return msgspec.json.encode(consent) + b"\n"
