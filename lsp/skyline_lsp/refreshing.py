"""Asks the client to refresh its display, at most a few times a second."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer

_GATHER_S = 0.2


class Refresher:
    """Collects refresh requests for lenses and hints and sends them together."""

    def __init__(self, server: SkylineServer) -> None:
        self._server = server
        self._lenses = self._hints = False
        self._timer: asyncio.TimerHandle | None = None

    def lenses(self) -> None:
        """Schedule a refresh of the lenses."""
        self._lenses = True
        self._schedule()

    def hints(self) -> None:
        """Schedule a refresh of the inlay hints."""
        self._hints = True
        self._schedule()

    def close(self) -> None:
        """Cancel the scheduled refresh."""
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHER_S, self._pass_on)

    def _pass_on(self) -> None:
        lenses, hints = self._lenses, self._hints
        self._lenses = self._hints = False
        self._timer = None
        workspace = self._server.client_capabilities.workspace
        if lenses and workspace and workspace.code_lens and workspace.code_lens.refresh_support:
            self._server.workspace_code_lens_refresh(None)
        if hints and workspace and workspace.inlay_hint and workspace.inlay_hint.refresh_support:
            self._server.workspace_inlay_hint_refresh(None)
