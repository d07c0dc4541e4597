"""Hosts that a run may reach over the network: all where the person started it, this machine where a save did."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from skyline.settings.source import from_words
from skyline_lsp.profiler import Profiler
from skyline_lsp.server import SkylineServer


@pytest.mark.parametrize(("setting", "on_save"), [((), "loopback"), (("network=open",), "open")])
def test_a_run_that_a_save_starts(
    setting: tuple[str, ...], on_save: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.py"
    path.write_text("import torch\n")

    async def ask() -> tuple[str, str]:
        server = SkylineServer(from_words(setting))
        # A workspace is there only once a client has said so.
        monkeypatch.setattr(SkylineServer, "folder_of", lambda *_: str(tmp_path))
        state = server.scripts.ensure(path.as_uri(), str(path))
        profiler = Profiler(server, asyncio.get_running_loop())
        by_hand = profiler.request_for(state)
        return by_hand.network, profiler.request_for(state, by_hand=False).network

    assert asyncio.run(ask()) == ("open", on_save)
