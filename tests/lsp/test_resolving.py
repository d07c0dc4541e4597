"""Content that capable clients request in pieces: titles of lenses, tooltips, edits, confirmations."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from skyline.report import protocol

OF_THE_LOOP = 8
OF_THE_LOADER = 4
OF_THE_OPTIMIZER = 6


@pytest.fixture
def able(capabilities: types.ClientCapabilities) -> types.ClientCapabilities:
    """A client that asks for everything piece by piece."""
    document, workspace = capabilities.text_document, capabilities.workspace
    assert document is not None
    assert workspace is not None
    assert workspace.workspace_edit is not None
    document.code_lens = types.CodeLensClientCapabilities(
        resolve_support=types.ClientCodeLensResolveOptions(["command"])
    )
    document.inlay_hint = types.InlayHintClientCapabilities(
        resolve_support=types.ClientInlayHintResolveOptions(["tooltip"])
    )
    workspace.workspace_edit.change_annotation_support = types.ChangeAnnotationsSupportOptions()
    return capabilities


async def test_lenses_and_tooltips_come_when_they_are_looked_at(
    start_editor, profiled: Path, able: types.ClientCapabilities
) -> None:
    plain, patient = await start_editor(), await start_editor(capabilities=able)
    for editor in (plain, patient):
        train = editor.open(profiled / "train.py")
        await editor.next_change(lambda change: change["profileId"])
    document = types.TextDocumentIdentifier(train)
    titles = await plain.lenses(train)
    found = await patient.client.text_document_code_lens_async(types.CodeLensParams(document)) or []
    assert [lens.command for lens in found] == [None] * len(titles)
    resolved = [await patient.client.code_lens_resolve_async(lens) for lens in found]
    assert [lens.command.title for lens in resolved if lens.command] == titles

    everything = types.Range(types.Position(0, 0), types.Position(100, 0))
    params = types.InlayHintParams(document, everything)
    told = await plain.client.text_document_inlay_hint_async(params) or []
    asked = await patient.client.text_document_inlay_hint_async(params) or []
    assert [hint.label for hint in asked] == [hint.label for hint in told]
    assert all(hint.tooltip is None for hint in asked)
    assert all(hint.tooltip is not None for hint in told)
    resolved = [await patient.client.inlay_hint_resolve_async(hint) for hint in asked]
    assert [hint.tooltip for hint in resolved] == [hint.tooltip for hint in told]


async def test_what_changes_training_is_confirmed_first(
    start_editor, profiled: Path, able: types.ClientCapabilities
) -> None:
    editor = await start_editor(capabilities=able)
    train = editor.open(profiled / "train.py")
    await editor.next_change(lambda change: change["profileId"])
    actions = {action.kind: action for action in await editor.refactorings(train, OF_THE_LOADER)}
    larger, workers = (
        actions["refactor.rewrite.skyline.batch_size"],
        actions["refactor.rewrite.skyline.num_workers"],
    )
    assert larger.edit is not None
    (annotation,) = larger.edit.change_annotations.values()
    assert annotation.needs_confirmation
    assert "how the model trains" in annotation.description
    (change,) = larger.edit.document_changes
    assert {part.annotation_id for part in change.edits} == set(larger.edit.change_annotations)
    assert "how the model trains" not in larger.title
    assert workers.edit is not None
    assert workers.edit.change_annotations is None, "the loss stays what it was"

    # For another text the edit is made when it is wanted, and confirmed all the same.
    editor.change(train, "# first\n" + editor.text(train))
    late = next(
        action for action in await editor.refactorings(train, OF_THE_LOADER + 1) if action.kind == larger.kind
    )
    assert late.edit is None
    assert (await editor.resolve(late)).edit.change_annotations


async def test_who_cannot_be_asked_reads_in_the_title_what_a_change_means(
    start_editor, profiled: Path
) -> None:
    editor = await start_editor()
    train = editor.open(profiled / "train.py")
    await editor.next_change(lambda change: change["profileId"])
    actions = {action.kind: action for action in await editor.refactorings(train, OF_THE_LOADER)}
    assert actions["refactor.rewrite.skyline.batch_size"].title.endswith("Changes how the model trains")
    assert "Changes" not in actions["refactor.rewrite.skyline.num_workers"].title


async def test_all_safe_changes_at_once_for_whoever_asks(start_editor, profiled: Path) -> None:
    editor = await start_editor()
    train = editor.open(profiled / "train.py")
    await editor.next_change(lambda change: change["profileId"])
    everywhere = await editor.actions(train, OF_THE_OPTIMIZER)
    assert not [action for action in everywhere if action.kind.startswith("source")]
    for kind in (types.CodeActionKind.SourceFixAll, types.CodeActionKind.Source):
        assert await editor.actions(train, 0, kind) == [], (
            "a save that asks for everybody's fixes changes no code"
        )
    (all_of_them,) = await editor.actions(train, 0, "source.fixAll.skyline")
    assert all_of_them.kind == "source.fixAll.skyline"
    assert "fused_optimizer" in all_of_them.title
    assert "predicted -" in all_of_them.title
    (change,) = all_of_them.edit.document_changes
    assert [part.new_text for part in change.edits] == [", fused=True"], "a larger batch is not safe"
    assert change.text_document.version == 1


@pytest.mark.parametrize(
    ("encoding", "units"),
    [
        (types.PositionEncodingKind.Utf8, 4),
        (types.PositionEncodingKind.Utf32, 1),
    ],
)
async def test_places_are_told_in_the_units_of_the_client(
    start_editor,
    profiled: Path,
    capabilities: types.ClientCapabilities,
    encoding: types.PositionEncodingKind,
    units: int,
) -> None:
    assert capabilities.general is not None
    capabilities.general.position_encodings = [encoding]
    editor = await start_editor(capabilities=capabilities)
    train = editor.open(profiled / "train.py")
    await editor.next_change(lambda change: change["profileId"])
    text = editor.text(train)
    note = 'note = "😋"; '
    editor.change(train, text.replace("loader = ", f"{note}loader = "))
    preview = await editor.ask(protocol.PREVIEW, uri=train, batchSize=64, whatifs=[])
    (edit,) = preview["edits"]
    at = text.splitlines()[OF_THE_LOADER].index("16")
    assert edit["startColumn"] == at + len(note) + 1, "a preview is always in UTF-16"
    actions = await editor.refactorings(train, OF_THE_LOADER - 1)
    assert actions == []
    (change,) = (await _fused(editor, train)).edit.document_changes
    place = change.edits[0].range.start
    assert place.line == OF_THE_OPTIMIZER
    assert (await _moved(editor, train, text, note)) == at + len(note) - 1 + units


async def _fused(editor, train: str) -> types.CodeAction:
    (action,) = [
        action
        for action in await editor.refactorings(train, OF_THE_OPTIMIZER)
        if action.kind.endswith("fused_optimizer")
    ]
    return action if action.edit else await editor.resolve(action)


async def _moved(editor, train: str, text: str, note: str) -> int:
    """Where the batch size is said to be on the line that begins with the note."""
    editor.takes_edits = False
    await editor.ask(protocol.APPLY, uri=train, batchSize=64, whatifs=[])
    (change,) = editor.offered[-1].document_changes
    return change.edits[0].range.start.character


def test_lines_of_the_recorded_script(profiled: Path) -> None:
    lines = (profiled / "train.py").read_text().splitlines()
    assert lines[OF_THE_LOADER].startswith("loader = ")
    assert lines[OF_THE_OPTIMIZER].startswith("optimizer = ")
    assert lines[OF_THE_LOOP].startswith("for ")
