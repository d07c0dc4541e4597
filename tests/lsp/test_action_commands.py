"""A client that cannot have an edit worked out later gets a command that makes the change when it is chosen."""

from __future__ import annotations

import ast
from pathlib import Path

from lsprotocol import types


async def test_the_change_is_made_when_it_is_chosen(profiled: Path, start_editor, capabilities) -> None:
    capabilities.text_document.code_action.resolve_support = None
    editor = await start_editor({"profile": {"onSave": "never", "budgetS": 0.05}}, capabilities=capabilities)
    uri = editor.open(profiled / "train.py")
    await editor.next_change(lambda change: change["profileId"])
    before = editor.text(uri) + "# mine\n"
    editor.change(uri, before)
    line = next(number for number, text in enumerate(before.splitlines()) if "Adam" in text)
    place = types.Range(types.Position(line, 0), types.Position(line, 0))
    context = types.CodeActionContext([], only=[types.CodeActionKind.Refactor])
    params = types.CodeActionParams(types.TextDocumentIdentifier(uri), place, context)
    offered = await editor.client.text_document_code_action_async(params)
    # The library of the tests takes an action that holds a command for that command, and writes it out.
    commands = [ast.literal_eval(action.command) for action in offered if isinstance(action, types.Command)]
    fused = next(command for command in commands if "fused" in command["title"])
    result = await editor.run(fused["command"], *fused["arguments"])
    assert result["applied"], result
    assert editor.text(uri) == before.replace("parameters())", "parameters(), fused=True)")
    assert isinstance(editor.offered[0].document_changes[0], types.TextDocumentEdit)

    # A change that turns out to be impossible is reported in words: nobody looks at the result of a command.
    assert not (await editor.run(fused["command"], *fused["arguments"]))["applied"]
    await editor.until(lambda: bool(editor.client.messages))
    assert "fused_optimizer" in editor.client.messages[-1].message
