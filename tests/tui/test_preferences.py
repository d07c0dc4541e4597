"""Theme, mode and keys of a person's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline_tui.app import SkylineApp
from skyline_tui.preferences import Preferences, read_preferences


def test_no_file_no_preferences(tmp_path: Path) -> None:
    assert read_preferences(tmp_path / "none.toml") == Preferences()


@pytest.mark.parametrize("text", ["theme = 3", "keys = 'a'", "[keys]\napply = 1", "live = 'no'", "theme = "])
def test_what_makes_no_sense_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tui.toml"
    path.write_text(text)
    assert str(path) in read_preferences(path).problem


async def test_a_key_of_ones_own_and_a_theme(
    opened_app, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tui.toml"
    path.write_text('theme = "nord"\n[keys]\nhelp = "f1"\n"no-such" = "x"\n')
    given = opened_app()
    app = SkylineApp(given.session.script, lambda post: given.session, preferences=read_preferences(path))
    told: list[
        str
    ] = []  # a notification is gone after some seconds, on a busy machine before it is looked for
    shown = app.notify
    monkeypatch.setattr(app, "notify", lambda text, **given: told.append(text) or shown(text, **given))
    given.session.post = app.post_message
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert app.theme == "nord"
        assert "no-such" in "\n".join(told)
        await pilot.press("?")
        assert len(app.screen_stack) == 1
        await pilot.press("f1")
        assert len(app.screen_stack) == 2
