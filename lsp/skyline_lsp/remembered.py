"""Which scripts the person lets saving measure, on which branch, and since when; in this session or an earlier one.

That is kept in the person's data directory, not beside the script: a folder that somebody else made cannot claim it.
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
    """Saving a script may measure it while this is checked out. Both are empty in a folder without git."""

    script: str
    branch: str = ""
    commit: str = ""
    given_s: float = 0.0
    """Seconds since the epoch; 0: by a version that did not keep it."""

    @property
    def checkout(self) -> Checkout:
        """Where it was given."""
        return Checkout(self.branch, self.commit)


class Remembered:
    """Consents as JSON, one a line, the latest last; a file that cannot be read or written is as good as empty.

    A line of an earlier version is a path: of a script that was profiled, with a consent that has lapsed.
    """

    def __init__(self, path: Path | None = None, now_s: Callable[[], float] = time.time) -> None:
        self._path = path or ledger_path().with_name(_NAME)
        self._now_s = now_s
        self._stamp: tuple[int, int] | None = None
        self._consents: dict[tuple[str, Checkout], Consent] = {}

    def __contains__(self, script: str) -> bool:
        """Whether the person has ever had a script profiled."""
        return self.latest(script) is not None

    def latest(self, script: str) -> Consent | None:
        """The consent that was given last for a script, lapsed or not."""
        given = [consent for consent in self._known().values() if consent.script == script]
        # Of two in the same second, the one that stands last.
        return max(reversed(given), key=lambda consent: consent.given_s, default=None)

    def holds(self, script: str, checkout: Checkout) -> bool:
        """Whether saving a script may measure it here and now."""
        consent = self._known().get((script, checkout))
        # A clock that was set back makes a time in the future: that is no reason to hold for ever.
        return consent is not None and abs(self._now_s() - consent.given_s) < CONSENT_DAYS * _DAY_S

    def add(self, script: str, checkout: Checkout) -> None:
        """The person agrees, from now on."""
        consent = Consent(script, checkout.branch, checkout.commit, round(self._now_s()))
        known = self._known()
        before = known.get((script, checkout))
        if before is not None and abs(consent.given_s - before.given_s) < _DAY_S:
            # Profiling by hand all day must not make the file grow.
            return
        # The latest last: the oldest are dropped first.
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
            logger.warning("cannot keep in mind that %r was profiled: %s", script, error)

    def _known(self) -> dict[tuple[str, Checkout], Consent]:
        """What the file holds, read again when another server has written to it, and what could not be written."""
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
