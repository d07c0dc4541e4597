"""Clients that show no progress bar, or none with words, get messages when a run starts and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from skyline.report import protocol

FOLLOWS = "; other batch sizes follow"


def told(editor) -> list[str]:
    return [message.message for message in editor.client.messages]


def ended(editor) -> bool:
    """True if more was reported than the start and the results so far."""
    return len(told(editor)) > 1 and not told(editor)[-1].endswith(FOLLOWS)


@pytest.mark.capture
async def test_start_and_end_are_told_where_there_is_no_bar(
    project: Path, start_editor, capabilities
) -> None:
    capabilities.window = None
    editor = await start_editor({"profile": {"onSave": "never"}}, capabilities=capabilities)
    train = editor.open(project / "train.py")
    await editor.run(protocol.COMMAND_PROFILE, train, {"steps": 4, "batchPoints": 0})
    await editor.until(lambda: ended(editor))
    start, end = told(editor)
    assert start == "Profiling train.py…"
    headline = next(title for title in await editor.lenses(train) if "per iteration" in title)
    verdict = (await editor.ask(protocol.WHATIFS, uri=train))["verdict"]
    assert verdict["bound"]
    assert verdict["advice"]
    assert end == f"Profiling train.py: {headline}. {verdict['bound']} {verdict['advice']}"
    assert {message.type for message in editor.client.messages} == {types.MessageType.Info}
    assert editor.progress() == []


@pytest.mark.capture
async def test_what_is_known_before_the_curve_is_told_too(project: Path, start_editor, capabilities) -> None:
    capabilities.window = None
    editor = await start_editor({"profile": {"onSave": "never"}}, capabilities=capabilities)
    train = editor.open(project / "train.py")
    await editor.run(protocol.COMMAND_PROFILE, train, {"steps": 4, "batchPoints": 1})
    await editor.until(lambda: ended(editor))
    start, known, end = told(editor)
    assert start == "Profiling train.py…"
    for message in (known, end):
        assert message.startswith("Profiling train.py: ")
        assert "per iteration" in message
    assert known.endswith(FOLLOWS)


@pytest.mark.capture
async def test_a_failure_is_told_once(project: Path, start_editor, capabilities) -> None:
    capabilities.window = None
    editor = await start_editor({"profile": {"onSave": "never"}}, capabilities=capabilities)
    (project / "train.py").write_text((project / "train.py").read_text().replace("Net()", "Net(nonsense)"))
    train = editor.open(project / "train.py")
    for run in (1, 2):
        await editor.run(protocol.COMMAND_PROFILE, train, {"steps": 4, "batchPoints": 0})
        await editor.until(lambda run=run: len(told(editor)) == 2 * run)
    start, end, again, repeated = told(editor)
    assert (start, again) == ("Profiling train.py…",) * 2
    assert "nonsense" in end
    # The long message is not repeated, but that the run ended is.
    assert repeated.startswith("Profiling train.py: failed: ")


@pytest.mark.capture
async def test_a_client_with_bars_is_not_told_twice(project: Path, start_editor) -> None:
    editor = await start_editor({"profile": {"onSave": "never"}})
    train = editor.open(project / "train.py")
    await editor.run(protocol.COMMAND_PROFILE, train, {"steps": 4, "batchPoints": 0})
    await editor.until(editor.idle)
    await editor.lenses(train)
    assert told(editor) == []
    (bar,) = editor.progress()
    assert "per iteration" in bar[-1].message
