"""What shortens tests of the screen and leaves out nothing that they look at."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SERVER = (sys.executable, str(TESTS / "brief_measurements.py"), "lsp")


@pytest.fixture(autouse=True)
def brief(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Servers that the screen starts measure briefly, and fork runs with the compiler that optimizers import.

    The screen alone has few objects to collect; with it, a worker's are those of all tests.
    """
    monkeypatch.setattr("skyline_tui.client.server_command", lambda: SERVER)
    monkeypatch.setattr("skyline_tui.news.freeze_garbage_collector", lambda: None)
    real = request.node.get_closest_marker("capture") is not None
    servers = request.getfixturevalue("forked_servers") if real else None
    if servers is None:
        monkeypatch.setenv("PYTHONPATH", str(TESTS / "preloaded"))
        yield
    else:
        with servers.in_place_of_programs():
            yield
