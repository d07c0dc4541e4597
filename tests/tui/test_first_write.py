"""Live mode asks once before it writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skyline_tui.live_consent import LiveConsent, consent_file

Desks = Callable[..., Any]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "skyline" / "agreed"


@pytest.fixture
def desk(opened_app: Desks, file: Path) -> Any:
    made = opened_app()
    made.app._consent = LiveConsent(file)
    return made


async def tried(desk: Any, pilot: Any, *keys: str) -> None:
    await pilot.pause()
    await pilot.press("space")
    await pilot.pause()
    assert "Trying a change writes it into" in desk.text
    assert "You see this once." in desk.text
    # The page stays behind it.
    assert "Costliest lines" in desk.text
    assert desk.session.applied == []
    await pilot.press(*keys)
    await pilot.pause()


async def test_who_agrees_is_not_asked_again(desk: Any, file: Path) -> None:
    async with desk.app.run_test(size=(120, 40)) as pilot:
        await tried(desk, pilot, "enter")
        assert len(desk.session.applied) == 1
        await pilot.press("down", "space")
        await pilot.pause()
        assert "Trying a change" not in desk.text
        assert len(desk.session.applied) == 2
    assert file.exists()
    assert LiveConsent(file).given


async def test_staged_mode_instead(desk: Any, file: Path) -> None:
    async with desk.app.run_test(size=(120, 40)) as pilot:
        await tried(desk, pilot, "m")
        assert desk.session.applied == []
        assert "staged ○" in desk.text
    assert not file.exists()


async def test_not_now_asks_again(desk: Any, file: Path) -> None:
    async with desk.app.run_test(size=(120, 40)) as pilot:
        await tried(desk, pilot, "escape")
        assert desk.session.applied == []
        assert "live ●" in desk.text
        await pilot.press("down")
        await tried(desk, pilot, "enter")
        assert len(desk.session.applied) == 1


def test_the_consent_is_in_the_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert consent_file() == tmp_path / "skyline" / "live-mode-agreed"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert consent_file().is_relative_to(Path.home())
