"""What-ifs are offered at the training loop, too, for clients whose only list of them is the list of actions."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from lsprotocol import types

from skyline.trace import store

OF_THE_LOADER = 4
OF_THE_LOOP = 8
PREFIX = "refactor.rewrite.skyline."


@pytest.fixture
async def editor(start_editor, profiled: Path):
    """Has a script open that was profiled as it is."""
    editor = await start_editor()
    editor.open(profiled / "train.py")
    await editor.next_change(lambda change: change["profileId"])
    return editor


async def test_every_change_that_can_be_written_is_offered_at_the_loop_best_first(
    editor, profiled: Path
) -> None:
    train = (profiled / "train.py").as_uri()
    answers = (await editor.ask("skyline/whatifs", uri=train))["estimates"]
    expected = [one["name"] for one in answers if one["applicable"] and one["rewrite"] == "available"]
    assert len(expected) >= 5
    offered = await editor.refactorings(train, OF_THE_LOOP)
    names = [action.kind.removeprefix(PREFIX) for action in offered if action.disabled is None]
    assert names == expected[:10]
    assert all("samples/s" in action.title or "per iteration" in action.title for action in offered)

    # The lens stands there, wherever that line is by now, and so do the changes.
    editor.change(
        train,
        "# first\n" + editor.text(train).replace("for inputs, targets in loader:", "for a, b in loader:"),
    )
    lenses = await editor.client.text_document_code_lens_async(
        types.CodeLensParams(types.TextDocumentIdentifier(train))
    )
    (line,) = {lens.range.start.line for lens in lenses if "per iteration" in lens.command.title}
    assert line == OF_THE_LOOP + 1
    offered = await editor.refactorings(train, line)
    assert [action.kind.removeprefix(PREFIX) for action in offered if action.disabled is None] == names
    (fused,) = [action for action in offered if action.kind == f"{PREFIX}fused_optimizer"]
    edit = (await editor.resolve(fused)).edit
    assert editor._apply(edit).applied
    assert "AdamW(model.parameters(), fused=True)" in editor.text(train)


async def test_each_stays_at_the_lines_that_it_edits(editor, profiled: Path) -> None:
    train = (profiled / "train.py").as_uri()
    offered = await editor.refactorings(train, OF_THE_LOADER)
    assert {action.kind.removeprefix(PREFIX) for action in offered} == {"batch_size", "num_workers"}


async def test_what_the_code_does_not_allow_is_told_with_its_reason_by_clients_that_show_it(
    start_editor, profiled: Path, capabilities: types.ClientCapabilities
) -> None:
    script = profiled / "train.py"
    profile = store.load(store.latest(script))
    text = profile.sources[0].text.replace("torch.optim.AdamW(", "make_optimizer(")
    sources = (dataclasses.replace(profile.sources[0], text=text), *profile.sources[1:])
    store.save(dataclasses.replace(profile, sources=sources, id="made", created="2099-01-01T00:00:00Z"))
    script.write_text(text)
    shown = await start_editor()
    capabilities.text_document.code_action.disabled_support = False
    hidden = await start_editor(capabilities=capabilities)
    for editor in (shown, hidden):
        editor.open(script)
        await editor.next_change(lambda change: change["profileId"] == "made")
    train = script.as_uri()
    offered = await shown.refactorings(train, OF_THE_LOOP)
    reasons = {
        action.kind.removeprefix(PREFIX): action.disabled.reason for action in offered if action.disabled
    }
    assert reasons.keys() == {"fused_optimizer", "compile"}
    assert "does not construct torch.optim.AdamW" in reasons["fused_optimizer"]
    disabled = [action.disabled is not None for action in offered]
    assert disabled == sorted(disabled), "what cannot be chosen comes last"
    kinds = {action.kind for action in await hidden.refactorings(train, OF_THE_LOOP)}
    assert kinds == {action.kind for action in offered if not action.disabled}
