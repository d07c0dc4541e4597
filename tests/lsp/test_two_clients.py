"""Two editors on one file, each with a server of its own, and one that types while a change is on its way."""

from __future__ import annotations

import random
from pathlib import Path

from lsprotocol import types

from skyline.report import protocol

FUSED = {"batchSize": None, "whatifs": ["fused_optimizer"]}


def question(uri: str, size: int | None) -> dict:
    return {"uri": uri, "batchSize": size, "whatifs": [] if size is not None else ["fused_optimizer"]}


class Person:
    """Somebody who saves and reads again as editors let them: never over what another program wrote meanwhile."""

    def __init__(self, editor, path: Path) -> None:
        self.editor, self.path = editor, path
        self.uri = editor.open(path)
        self.known = self.text = editor.text(self.uri)

    async def ready(self) -> None:
        await self.editor.next_change(lambda change: change["profileId"])

    def type(self, line: str) -> None:
        self.editor.change(self.uri, f"{self.editor.text(self.uri)}{line}\n")

    def save(self) -> bool:
        if self.path.read_text() != self.known:
            return False
        self.known = self.editor.text(self.uri)
        self.path.write_text(self.known)
        document = types.TextDocumentIdentifier(self.uri)
        self.editor.client.text_document_did_save(types.DidSaveTextDocumentParams(document))
        return True

    def read_again(self) -> None:
        self.known = self.path.read_text()
        self.editor.change(self.uri, self.known)

    async def apply(self, size: int | None) -> dict:
        return await self.editor.ask(protocol.APPLY, **question(self.uri, size))


async def test_a_change_for_an_outdated_version_is_refused_and_offered_again(
    profiled: Path, start_editor
) -> None:
    editor = await start_editor({"profile": {"onSave": "never"}})
    person = Person(editor, profiled / "train.py")
    await person.ready()
    before, take = editor.text(person.uri), editor._apply
    answers: list[bool] = []

    def typing_first(edit: types.WorkspaceEdit) -> types.ApplyWorkspaceEditResult:
        # The edit is on its way when the person goes on; news of that reach the server behind the refusal, or before.
        if len(answers) < 2:
            person.type(f"# typed {len(answers)}")
        answer = take(edit)
        answers.append(answer.applied)
        return answer

    editor._apply = typing_first
    result = await person.apply(64)
    assert result["applied"], result
    assert answers == [False, False, True]
    typed = before + "# typed 0\n# typed 1\n"
    assert editor.text(person.uri) == typed.replace("batch_size=16", "batch_size=64")
    versions = [edit.document_changes[0].text_document.version for edit in editor.offered]
    assert versions == [1, 2, 3]
    assert (await editor.ask(protocol.REVERT, uri=person.uri))["applied"]
    assert editor.text(person.uri) == typed

    # A person who never stops typing gets a message that says so; all of their text is there.
    answers.clear()
    editor._apply = lambda edit: (person.type("# again"), take(edit))[1]
    result = await person.apply(64)
    assert not result["applied"]
    assert "kept changing before the edit arrived" in result["reason"]
    assert editor.text(person.uri) == typed + "# again\n" * 4


async def test_what_another_program_wrote_is_read_before_it_is_changed(profiled: Path, start_editor) -> None:
    settings = {"profile": {"onSave": "never"}}
    first = Person(await start_editor(settings), profiled / "train.py")
    second = Person(await start_editor(settings), profiled / "train.py")
    await first.ready()
    await second.ready()
    assert (await first.apply(64))["applied"]
    assert first.save()
    # The second has the text from before: a change in it could only be saved over the first one's.
    refused = await second.apply(None)
    assert not refused["applied"]
    assert "changed on disk by another program" in refused["reason"]
    assert "Reload it" in refused["reason"]
    assert second.editor.offered == []
    adam = next(n for n, line in enumerate(second.known.splitlines()) if "AdamW" in line)
    for action in await second.editor.actions(second.uri, adam):
        assert action.edit is None
    assert not second.save()
    second.read_again()
    assert (await second.apply(None))["applied"]
    assert second.save()
    text = second.path.read_text()
    assert "batch_size=64" in text
    assert "fused=True" in text
    # And back: the first one cannot take its change back in a text that is gone.
    gone = await first.editor.ask(protocol.REVERT, uri=first.uri)
    assert not gone["applied"]
    assert "changed on disk by another program" in gone["reason"]


async def test_a_file_changed_on_disk_between_preview_and_apply(profiled: Path, start_editor) -> None:
    editor = await start_editor({"profile": {"onSave": "never"}})
    path = profiled / "train.py"
    uri, before = path.as_uri(), path.read_text()
    # Nowhere open: it is the disk that is changed.
    await editor.ask(protocol.PROFILE, uri=uri)
    await editor.next_change(lambda change: change["profileId"])
    preview = await editor.ask(protocol.PREVIEW, **question(uri, 64))
    assert preview["edits"][0]["startLine"] == 4
    path.write_text("# by another program\n" + before)
    assert (await editor.ask(protocol.APPLY, **question(uri, 64)))["applied"]
    assert path.read_text() == "# by another program\n" + before.replace("batch_size=16", "batch_size=64")


async def test_nothing_that_two_people_write_is_ever_lost(profiled: Path, start_editor) -> None:
    settings = {"profile": {"onSave": "never"}}
    people = [Person(await start_editor(settings), profiled / "train.py") for _ in range(2)]
    for person in people:
        await person.ready()
    chance, saved = random.Random(7), []
    for number in range(40):
        person = chance.choice(people)
        if chance.random() < 0.5:
            result = await person.apply(chance.choice((8, 32, 64, 128)))
            assert result["applied"] or result["reason"]
        note = f"# note {number}"
        person.type(note)
        if person.save():
            saved.append(note)
        else:
            person.read_again()
        text = person.path.read_text()
        assert [line for line in text.splitlines() if line.startswith("# note")] == saved
        assert text.count("batch_size=") == 1
        compile(text, "train.py", "exec")
    assert len(saved) > 10
