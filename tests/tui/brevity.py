"""What shortens tests of the screen and leaves out nothing that they look at."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SERVER = (sys.executable, str(TESTS / "brief_measurements.py"), "lsp")


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that the screen starts measure briefly, and fork runs with the compiler that optimizers import.

    The screen alone has few objects to collect; with it, a worker's are those of all tests.
    """
    monkeypatch.setenv("PYTHONPATH", str(TESTS / "preloaded"))
    monkeypatch.setattr("skyline_tui.client.server_command", lambda: SERVER)
    monkeypatch.setattr("skyline_tui.news.freeze_garbage_collector", lambda: None)
