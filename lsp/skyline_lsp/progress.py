"""The progress bar of a run in the client, with a cancel button. Clients without bars receive messages."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from lsprotocol import types

from skyline.capture.request import Progress

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer

logger = logging.getLogger(__name__)

_WORDLESS = {"eglot"}
"""Names, in lower case, of clients that show the percentage of a progress bar but not its text."""


class ProgressBar:
    """Opens once the client has accepted it, then shows the progress made until then.

    A client without progress bars, or whose bars show no text, receives messages at start, milestones and end.
    """

    def __init__(self, server: SkylineServer, title: str, on_cancel: Callable[[], object]) -> None:
        self._server = server
        self._title = title
        self._on_cancel = on_cancel
        self._token = f"skyline/{uuid.uuid4()}"
        self._open = False
        self._shown = Progress("launch", "starting", 0.0)
        self._end: str | None = None
        window = server.client_capabilities.window
        shown = bool(window and window.work_done_progress)
        self._told = not shown or server.client_name.lower() in _WORDLESS
        self._task = asyncio.ensure_future(self._begin()) if shown else None
        self._tell(f"{title}…")

    def report(self, progress: Progress) -> None:
        """Update the bar. Its fraction never decreases."""
        fraction = min(max(progress.fraction, self._shown.fraction), 1.0)
        self._shown = Progress(progress.stage, progress.message, fraction)
        if self._open:
            value = types.WorkDoneProgressReport(
                message=_words(self._shown), percentage=_percentage(self._shown), cancellable=True
            )
            self._server.work_done_progress.report(self._token, value)

    def milestone(self, message: str) -> None:
        """Report an intermediate result in a message, only to clients whose bars show no text."""
        self._tell(f"{self._title}: {message}")

    def end(self, message: str, *, told: bool = False, more: str = "") -> None:
        """Close the bar. Most clients show the message for a moment.

        ``told``: another message already reports the end, so no second one is sent. ``more`` is added only in clients
        that show a lasting message.
        """
        self._close(message)
        if not told:
            self._tell(". ".join(part for part in (f"{self._title}: {message}", more) if part))

    def _tell(self, message: str) -> None:
        if self._told and not self._server.shutdown_requested:
            self._server.window_show_message(types.ShowMessageParams(types.MessageType.Info, message))

    def _close(self, message: str) -> None:
        self._end = message
        if self._open:
            self._open = False
            self._server.work_done_progress.end(self._token, types.WorkDoneProgressEnd(message=message))
            self._server.work_done_progress.tokens.pop(self._token, None)

    async def _begin(self) -> None:
        bars = self._server.work_done_progress
        try:
            await bars.create_async(self._token)
        except Exception:
            logger.warning("the client did not accept a progress bar", exc_info=True)
            return
        begin = types.WorkDoneProgressBegin(
            title=self._title,
            message=_words(self._shown),
            percentage=_percentage(self._shown),
            cancellable=True,
        )
        bars.begin(self._token, begin)
        bars.tokens[self._token].add_done_callback(
            lambda future: self._on_cancel() if future.cancelled() else None
        )
        self._open = True
        if self._end is not None:
            self._close(self._end)


def _words(progress: Progress) -> str:
    return f"{progress.stage}: {progress.message}" if progress.message else progress.stage


def _percentage(progress: Progress) -> int:
    return round(progress.fraction * 100)
