"""A profile that another program saves, and settings that it writes, show up in the editor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from lsprotocol import types

from skyline.report import protocol


async def test_a_profile_of_the_command_line_shows_up(
    start_editor, project: Path, save: Callable[..., Path]
) -> None:
    editor = await start_editor()
    train = editor.open(project / "train.py")
    assert await editor.ask(protocol.PROFILE, uri=train) is None
    # The folder is made with the first profile in it.
    save(project)
    change = await editor.next_change(lambda change: change["profileId"])
    assert change["stale"], "it is of another text"
    save(project, id="later", created="2026-11-21T06:00:00+00:00")
    await editor.next_change(lambda change: change["profileId"] == "later")
    # An older one that is copied there is no news.
    save(project, id="older", created="2020-01-01T00:00:00+00:00")
    await asyncio.sleep(0.6)
    save(project, id="latest", created="2026-11-21T07:00:00+00:00")
    change = await editor.next_change(lambda change: True)
    assert change["profileId"] == "latest"


async def test_clients_that_watch_files_are_asked_to(
    start_editor, profiled: Path, capabilities: types.ClientCapabilities
) -> None:
    assert capabilities.workspace is not None
    capabilities.workspace.did_change_watched_files = types.DidChangeWatchedFilesClientCapabilities(
        dynamic_registration=True
    )
    editor = await start_editor(capabilities=capabilities)
    train = editor.open(profiled / "train.py")
    await editor.next_change(lambda change: change["profileId"])
    await editor.until(lambda: bool(editor.registered))
    options = [one.register_options for one in editor.registered if one.method.endswith("WatchedFiles")]
    globs = [watcher["globPattern"] for option in options for watcher in option["watchers"]]
    assert globs == ["**/.skyline/*.profile.json.gz", "**/pyproject.toml"]

    assert await editor.hints(train)
    project = profiled / "pyproject.toml"
    project.write_text("[tool.skyline.inlay_hints]\nenable = false\n")
    event = types.FileEvent(project.as_uri(), types.FileChangeType.Created)
    editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))
    # Saves are left to settle first.
    for _ in range(100):
        if not await editor.hints(train):
            return
        await asyncio.sleep(0.1)
    pytest.fail("the project's file was not read again")
