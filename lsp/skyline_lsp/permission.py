"""Consent to profiling on save. Skyline asks the user once for each script and branch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from skyline.source.checkout import Checkout, checkout_at

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer
import os
import time

import msgspec

from skyline.bounded_read import read_bounded
from skyline.ledger.ledger import ledger_path

logger = logging.getLogger(__name__)

YES = "Profile on Save"
NO = "Not Now"


class Permission:
    """Consents by script and git checkout. A yes is stored, a no holds for this session."""

    def __init__(self, server: SkylineServer) -> None:
        self._server = server
        self._remembered = Remembered()
        self._refused: set[tuple[str, Checkout]] = set()
        self._asking: dict[tuple[str, Checkout], asyncio.Task[None]] = {}

    def was_given(self, script: str) -> bool:
        """True if the user ever had this script profiled, on any branch."""
        return script in self._remembered

    def give(self, script: str) -> None:
        """Record that the user profiled the script by hand, which is consent for the current checkout."""
        checkout = checkout_at(script)
        self._refused.discard((script, checkout))
        self._remembered.add(script, checkout)

    def holds(self, script: str) -> bool:
        """True if a save may measure the script on the current checkout."""
        return self._remembered.holds(script, checkout_at(script))

    def ask(self, script: str, agreed: Callable[[], None]) -> None:
        """Ask once for the current checkout. ``agreed`` is called after a yes if the checkout is still the same."""
        key = (script, checkout_at(script))
        if key in self._refused or key in self._asking:
            return
        task = asyncio.get_running_loop().create_task(self._asked(*key, agreed))
        self._asking[key] = task
        task.add_done_callback(lambda _: self._asking.pop(key, None))

    def close(self) -> None:
        """Cancel all open questions."""
        for task in self._asking.values():
            if not task.get_loop().is_closed():
                task.cancel()

    async def _asked(self, script: str, checkout: Checkout, agreed: Callable[[], None]) -> None:
        why, question = wording(Path(script).name, self._remembered.latest(script), checkout)
        request = types.ShowMessageRequestParams(
            type=types.MessageType.Info,
            message=f"{why} {question}",
            actions=[types.MessageActionItem(YES), types.MessageActionItem(NO)],
        )
        answer: types.MessageActionItem | None = None
        try:
            answer = await self._server.window_show_message_request_async(request)
        except Exception:
            logger.info("the client cannot ask %r", request.message, exc_info=True)
            self._server.once(f"{why} Profile it once by hand to have it profiled on save here too.")
        if answer is not None and answer.title == YES:
            self._remembered.add(script, checkout)
            if checkout_at(script) == checkout:
                agreed()
        elif not self._remembered.holds(script, checkout):
            # Profiling by hand while the question was open counts as a yes.
            self._refused.add((script, checkout))


def wording(name: str, last: Consent | None, now: Checkout) -> tuple[str, str]:
    """The reason for asking and the question."""
    if last is not None and last.checkout == now and last.given_s:
        why = f"You last agreed to profile {name} on save more than {CONSENT_DAYS} days ago."
        return why, f"Profile it on save for {CONSENT_DAYS} more days?"
    dated = last is not None and last.given_s
    where = f"on {last.checkout}" if last is not None and dated else "by an earlier version of Skyline"
    here = f"; now on {now.branch or now}" if dated or now != Checkout() else ""
    return f"{name} was last profiled {where}{here}.", "Profile it on save here too?"


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
