"""The terminal UI of one script or recording, connected to a server of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from skyline_tui.app import SkylineApp
from skyline_tui.client import Server
from skyline_tui.messages import Post
from skyline_tui.preferences import read_preferences
from skyline_tui.session import SavedSession, ServerSession


def interface(script: Path, settings: Mapping[str, object], *, theme: str | None, staged: bool) -> SkylineApp:
    """The application. ``theme`` and ``staged`` override the user's preferences."""

    def connect(post: Post) -> ServerSession:
        if script.suffix in {".json", ".gz"}:
            return SavedSession(script, Server(post, dict(settings)), post)
        return ServerSession(script, Server(post, dict(settings)))

    preferences = read_preferences()
    if theme:
        preferences = replace(preferences, theme=theme)
    live = not staged and preferences.live is not False
    return SkylineApp(script, connect, live=live, preferences=preferences)
