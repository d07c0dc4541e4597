"""Other batch sizes, in a client without a plug-in: told where the batch size stands, and chosen there."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from lsprotocol import types

from skyline.trace import store

OF_THE_LOADER = 4
KIND = "refactor.rewrite.skyline.batch_size"
DOUBLE = "Skyline: double the batch size to 32, measured 57538 samples/s (28423–160260). Changes how the model trains"
HALF = (
    "Skyline: halve the batch size to 8, predicted 17462 samples/s (8810–47313). Changes how the model trains"
)


async def hover(editor, uri: str, line: int, column: int) -> types.Hover | None:
    params = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, column))
    return await editor.client.text_document_hover_async(params)


async def sizes(editor, uri: str, line: int) -> dict[str, types.CodeAction]:
    """The actions on the batch size by title."""
    return {action.title: action for action in await editor.refactorings(uri, line) if action.kind == KIND}


@pytest.fixture
async def editor(start_editor, profiled: Path):
    """Has a script open whose batch size was measured as 16."""
    editor = await start_editor()
    editor.open(profiled / "train.py")
    await editor.next_change(lambda change: change["profileId"])
    return editor


async def test_the_curve_is_told_at_the_batch_size_alone(editor, profiled: Path) -> None:
    train = (profiled / "train.py").as_uri()
    line = editor.text(train).splitlines()[OF_THE_LOADER]
    name, literal = line.index("batch_size"), line.index("16")
    for column in (name, literal, literal + 2):
        found = await hover(editor, train, OF_THE_LOADER, column)
        assert found is not None
        assert "| **16** | **32904 (23824–55751)** |" in found.contents.value
        assert "| 64 | 93467 (49241–269181) |" in found.contents.value
        assert (found.range.start.character, found.range.end.character) == (name, literal + 2)
    for column in (0, literal + 4):
        found = await hover(editor, train, OF_THE_LOADER, column)
        assert found is None or "| 64 |" not in found.contents.value

    # The size typed since is the size in the code; the line's own numbers are gone with the edit.
    editor.change(train, "# first\n" + editor.text(train).replace("batch_size=16", "batch_size=48"))
    found = await hover(editor, train, OF_THE_LOADER + 1, literal)
    assert "| **48** |" in found.contents.value
    assert "in the code" in next(row for row in found.contents.value.splitlines() if "**48** |" in row)
    assert "the code changed since" in found.contents.value


async def test_half_and_double_are_made_of_the_text_as_it_is(editor, profiled: Path) -> None:
    train = (profiled / "train.py").as_uri()
    before = editor.text(train)
    offered = await sizes(editor, train, OF_THE_LOADER)
    assert {DOUBLE, HALF} <= set(offered)
    (change,) = offered[DOUBLE].edit.document_changes
    assert [part.new_text for part in change.edits] == ["32"]
    assert await sizes(editor, train, OF_THE_LOADER + 3) == {}

    text = "# first\n" + before.replace("batch_size=16", "batch_size=64")
    editor.change(train, text)
    offered = await sizes(editor, train, OF_THE_LOADER + 1)
    (half,) = [
        title for title in offered if title.startswith("Skyline: halve the batch size to 32, measured")
    ]
    (double,) = [
        title for title in offered if title.startswith("Skyline: double the batch size to 128, extrapolated")
    ]
    assert double
    edit = (await editor.resolve(offered[half])).edit
    assert editor._apply(edit).applied
    assert editor.text(train) == text.replace("batch_size=64", "batch_size=32")
    # Back to the size that was measured, which is an edit all the same.
    offered = await sizes(editor, train, OF_THE_LOADER + 1)
    (half,) = [
        title for title in offered if title.startswith("Skyline: halve the batch size to 16, measured")
    ]
    assert editor._apply((await editor.resolve(offered[half])).edit).applied
    assert editor.text(train) == "# first\n" + before


async def test_memory_decides_what_is_offered(start_editor, profiled: Path) -> None:
    saved = store.latest(profiled / "train.py")
    assert saved is not None
    profile = store.load(saved)
    environment = dataclasses.replace(profile.environment, memory_capacity_bytes=13_254_000)
    store.save(
        dataclasses.replace(profile, environment=environment, id="small", created="2099-01-01T00:00:00Z")
    )
    editor = await start_editor()
    train = editor.open(profiled / "train.py")
    await editor.next_change(lambda change: change["profileId"] == "small")
    offered = await sizes(editor, train, OF_THE_LOADER)
    assert not [title for title in offered if "largest" in title], (
        "the size in the code is the largest that fits"
    )
    (double,) = [action for title, action in offered.items() if "double the batch size to 32" in title]
    assert double.disabled.reason == (
        "Batch size 32 does not fit into memory: it needs 13.3 MB, and 13.3 MB is available."
    )
    editor.change(train, editor.text(train).replace("batch_size=16", "batch_size=4"))
    (largest,) = [title for title in await sizes(editor, train, OF_THE_LOADER) if "largest" in title]
    assert largest.startswith(
        "Skyline: batch size 16, the largest size on the curve that fits into memory, predicted "
    ) or largest.startswith(
        "Skyline: batch size 16, the largest size on the curve that fits into memory, measured "
    )
