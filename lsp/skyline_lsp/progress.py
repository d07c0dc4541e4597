"""The progress bar of a profiling in the client, with its cancel button."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from lsprotocol import types

from skyline.capture.request import Progress

if TYPE_CHECKING:
    from pygls.lsp.server import LanguageServer

logger = logging.getLogger(__name__)


class ProgressBar:
    """Opens once the client has agreed to it; what happens before that is caught up on, not lost."""

    def __init__(self, server: LanguageServer, title: str, on_cancel: Callable[[], object]) -> None:
        self._server = server
        self._title = title
        self._on_cancel = on_cancel
        self._token = f"skyline/{uuid.uuid4()}"
        self._open = False
        self._shown = Progress("launch", "starting", 0.0)
        self._end: str | None = None
        window = server.client_capabilities.window
        self._task = asyncio.ensure_future(self._begin()) if window and window.work_done_progress else None

    def report(self, progress: Progress) -> None:
        """How far it is; the bar never goes back, whatever the stages say."""
        fraction = min(max(progress.fraction, self._shown.fraction), 1.0)
        self._shown = Progress(progress.stage, progress.message, fraction)
        if self._open:
            value = types.WorkDoneProgressReport(
                message=_words(self._shown), percentage=_percentage(self._shown), cancellable=True
            )
            self._server.work_done_progress.report(self._token, value)

    def end(self, message: str) -> None:
        """Close the bar; the message stays readable for a moment in most clients."""
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
            self.end(self._end)


def _words(progress: Progress) -> str:
    return f"{progress.stage}: {progress.message}" if progress.message else progress.stage


def _percentage(progress: Progress) -> int:
    return round(progress.fraction * 100)
