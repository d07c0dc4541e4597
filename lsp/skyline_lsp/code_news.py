"""Notifies the client when the difference between the code and the profile changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skyline.report import protocol
from skyline_lsp import wire
from skyline_lsp.code_changes import code_changes

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer
    from skyline_lsp.state import ScriptState

_REST_S = 0.08
"""Pause in typing before the texts, which take time to compare, are compared."""


class CodeNews:
    """Checks scripts after a change of their code or profile, once typing pauses."""

    def __init__(self, server: SkylineServer) -> None:
        self._server = server
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._told: dict[str, protocol.CodeChanges] = {}

    def look(self, state: ScriptState) -> None:
        """Schedule a check of this script. Repeated calls until then cause one check."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if (waiting := self._waiting.pop(state.path, None)) is not None:
            waiting.cancel()
        self._waiting[state.path] = loop.call_later(_REST_S, self._look, state)

    def close(self) -> None:
        """Cancel all scheduled checks."""
        for waiting in self._waiting.values():
            waiting.cancel()
        self._waiting.clear()

    def ask(self, state: ScriptState) -> protocol.CodeChanges:
        """The current changes, on request. The client is notified when they change again."""
        now = code_changes(self._server, state)
        self._told[state.path] = now
        return now

    def _look(self, state: ScriptState) -> None:
        self._waiting.pop(state.path, None)
        now = code_changes(self._server, state)
        if now != self._told.get(state.path, protocol.CodeChanges(state.uri, None, (), (), (), None)):
            self._told[state.path] = now
            self._server.protocol.notify(protocol.CODE_CHANGED, wire.send(now))
