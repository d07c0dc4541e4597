"""Consent to profiling on save. Skyline asks the user once for each script and branch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from skyline.source.checkout import Checkout, checkout_at
from skyline_lsp.remembered import CONSENT_DAYS, Consent, Remembered

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer

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
