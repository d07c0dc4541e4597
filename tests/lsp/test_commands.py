"""Commands say what they did, can be sent twice, and need no more of a client than the standard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from skyline.report import protocol
from skyline.trace import store
from skyline_lsp.convert import NO_NOTEBOOKS, NOTEBOOK_HINT


async def test_asking_applying_taking_back_and_clearing(start_editor, profiled: Path) -> None:
    editor = await start_editor()
    train = editor.open(profiled / "train.py")
    before = editor.text(train)
    await editor.next_change(lambda change: change["profileId"])
    question = {"batchSize": 64, "whatifs": []}
    estimate = await editor.run(protocol.COMMAND_WHATIF, train, question)
    assert estimate == await editor.ask(protocol.SIMULATE, uri=train, **question)
    assert "per iteration" in editor.client.messages[-1].message
    with pytest.raises(JsonRpcException, match="nonsense"):
        await editor.run(protocol.COMMAND_WHATIF, train, {"whatifs": ["nonsense"]})

    # Without arguments the script that was worked on last is meant: some clients cannot pass any.
    applied = await editor.run(protocol.COMMAND_APPLY_REWRITE, train, question)
    assert applied["applied"]
    assert "batch_size=64" in editor.text(train)
    again = await editor.run(protocol.COMMAND_APPLY_REWRITE, train, question)
    assert not again["applied"]
    assert again["reason"]
    assert (await editor.run(protocol.COMMAND_REVERT))["applied"]
    assert editor.text(train) == before
    assert not (await editor.run(protocol.COMMAND_REVERT))["applied"]

    assert await editor.run(protocol.COMMAND_CLEAR, train) == {
        "status": "cleared",
        "path": None,
        "script": None,
    }
    assert await editor.run(protocol.COMMAND_CLEAR, train) == {"status": "idle", "path": None, "script": None}
    assert await editor.hints(train) == {}
    assert await editor.ask(protocol.PROFILE, uri=train) is None
    await editor.until(lambda: not editor.client.diagnostics[train])
    assert await editor.lenses(train) == ["▶ Profile this training script with Skyline"]
    with pytest.raises(JsonRpcException, match=r"skyline\.profile"):
        await editor.run(protocol.COMMAND_WHATIF, train, question)


async def test_a_measurement_of_a_busy_machine_is_shown_where_it_is_wanted(
    start_editor, profiled: Path, save: Callable[..., Path]
) -> None:
    path = save(profiled, id="later", created="2100-01-01T00:00:00+00:00")
    later = store.load(path)
    path.unlink()
    store.save(later, aside=True)
    editor = await start_editor()
    train = editor.open(profiled / "train.py")
    await editor.next_change(lambda change: change["profileId"])
    headline, offer = await editor.lenses(train)
    assert "machine busy: an earlier measurement is shown" in headline
    assert offer == "Show the later measurement"
    assert (await editor.run(protocol.COMMAND_USE_LATER, train))["status"] == "shown"
    await editor.next_change(lambda change: change["profileId"] == "later")
    (headline,) = await editor.lenses(train)
    assert "busy" not in headline
    assert (await editor.run(protocol.COMMAND_USE_LATER, train))["status"] == "idle"


async def test_a_report_is_named_where_it_cannot_be_shown(
    start_editor, profiled: Path, capabilities: types.ClientCapabilities
) -> None:
    assert capabilities.window is not None
    capabilities.window.show_document = None
    editor = await start_editor(capabilities=capabilities)
    train = editor.open(profiled / "train.py")
    await editor.next_change(lambda change: change["profileId"])
    shown = await editor.run(protocol.COMMAND_SHOW_REPORT, train)
    assert shown["status"] == "written"
    assert editor.client.messages[-1].message == f"The report was written to {shown['path']}"


async def test_notebooks_are_not_taken_for_scripts(start_editor, profiled: Path) -> None:
    editor = await start_editor()
    text = (profiled / "train.py").read_text()
    for uri in ("vscode-notebook-cell:/tmp/x.ipynb#W0sZmlsZQ", "file:///tmp/x.ipynb"):
        item = types.TextDocumentItem(uri=uri, language_id="python", version=1, text=text)
        editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        assert await editor.lenses(uri) == []
        with pytest.raises(
            JsonRpcException, match=r"does not send the cells of its notebooks to Skyline.*%%skyline"
        ):
            await editor.run(protocol.COMMAND_PROFILE, uri)
    (message,) = editor.client.messages
    assert message.message == f"{NO_NOTEBOOKS}. {NOTEBOOK_HINT}"
