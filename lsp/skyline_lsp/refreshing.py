"""Has the client ask again for what it shows, at most a few times a second."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer

_GATHER_S = 0.2


class Refresher:
    """Gathers requests for lenses and hints to be drawn anew, and passes them on together."""

    def __init__(self, server: SkylineServer) -> None:
        self._server = server
        self._lenses = self._hints = False
        self._timer: asyncio.TimerHandle | None = None

    def lenses(self) -> None:
        """The lenses changed."""
        self._lenses = True
        self._schedule()

    def hints(self) -> None:
        """The hints at the ends of lines changed."""
        self._hints = True
        self._schedule()

    def close(self) -> None:
        """Nothing more is to be drawn."""
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
