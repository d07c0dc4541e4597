"""A batch size in a settings file: shown and changed there, and no word about files that no profile refers to."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
from lsprotocol import types

from skyline.source.knob import KnobSearch, SettingPlace
from skyline.trace import store

YAML = "# Settings of the training.\ntrain:\n  batch_size: 16  # samples\n  lr: 0.001\nseed: 16\n"
FILES = {
    "config.yaml": (YAML, 2, "train.batch_size"),
    "config.json": ('{\n  "train": {\n    "batch_size": 16, "lr": 0.001\n  }\n}\n', 2, "train.batch_size"),
    "config.toml": ("[train]\nlr = 0.001\nbatch_size = 16  # samples\n", 2, "train.batch_size"),
    "odd [name].yaml": (YAML, 2, "train.batch_size"),
}
KIND = "refactor.rewrite.skyline.batch_size"


def synchronising(able: types.ClientCapabilities) -> types.ClientCapabilities:
    """Of a client that takes registrations of documents, as VS Code does."""
    dynamic = {"dynamic_registration": True}
    document = able.text_document or types.TextDocumentClientCapabilities()
    action = document.code_action or types.CodeActionClientCapabilities()
    action.dynamic_registration = True
    document.synchronization = types.TextDocumentSyncClientCapabilities(**dynamic)
    document.code_lens = types.CodeLensClientCapabilities(**dynamic)
    document.hover = types.HoverClientCapabilities(**dynamic)
    return able


@pytest.fixture
def settled(save, tmp_path: Path):
    """Saves the recorded profile as that of a script whose batch size is in a settings file, and writes the file."""

    def make(name: str, folder: Path | None = None) -> Path:
        root = tmp_path.resolve()
        text, line, key = FILES[name]
        file = (folder or root) / name
        file.write_text(text)
        column = text.splitlines()[line].index("16")
        saved = save(root)
        profile = store.load(saved)
        saved.unlink()
        store.save(
            dataclasses.replace(
                profile,
                id="settled",
                knobs=KnobSearch(()),
                setting=SettingPlace(str(file), line + 1, key, "16", column),
            )
        )
        return file

    return make


async def opened(start_editor, able: types.ClientCapabilities, root: Path):
    editor = await start_editor(capabilities=able)
    train = editor.open(root / "train.py")
    await editor.next_change(lambda change: change["profileId"] == "settled")
    return editor, train


def registered(editor) -> dict[str, list[str]]:
    """The patterns that were registered, by method."""
    found: dict[str, list[str]] = {}
    for one in editor.registered:
        if one.id.startswith("skyline-settings"):
            selector = one.register_options["documentSelector"]
            found.setdefault(one.method, []).extend(each["pattern"] for each in selector)
    return found


async def registrations(editor) -> dict[str, list[str]]:
    await editor.until(lambda: types.TEXT_DOCUMENT_CODE_ACTION in registered(editor))
    return registered(editor)


@pytest.mark.parametrize("name", FILES)
async def test_the_number_is_shown_and_changed_in_its_file(
    start_editor, settled, capabilities, name: str
) -> None:
    file = settled(name)
    before, line, _ = FILES[name]
    editor, train = await opened(start_editor, synchronising(capabilities), file.parent)
    for patterns in (await registrations(editor)).values():
        assert patterns == ["**/" + name.replace("[", "<").replace("]", "[]]").replace("<", "[[]")]
    uri = editor.open(file)
    (lens,) = await editor.lenses(uri)
    assert lens.startswith("train.py: ")
    assert "samples/s" in lens
    column = before.splitlines()[line].index("16")
    params = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, column))
    hover = await editor.client.text_document_hover_async(params)
    assert "| **16** |" in hover.contents.value
    assert hover.range.end == types.Position(line, column + 2)
    offered = [action for action in await editor.refactorings(uri, line) if action.kind == KIND]
    assert [action.title for action in offered if "double the batch size to 32" in action.title]
    assert await editor.refactorings(uri, 0) == []
    assert await editor.hints(uri) == {}

    answer = await editor.ask("skyline/preview", uri=train, batchSize=48, whatifs=[])
    (edit,) = answer["edits"]
    assert (edit["uri"], edit["startLine"], edit["newText"]) == (uri, line, "48")
    answer = await editor.ask("skyline/apply", uri=train, batchSize=48, whatifs=[])
    assert answer["applied"], answer
    lines = before.splitlines(keepends=True)
    assert editor.text(uri) == "".join(
        text.replace("16", "48") if number == line else text for number, text in enumerate(lines)
    )
    assert file.read_text() == before, "the editor holds the change until it is saved"
    code = await editor.next_code(lambda code: code["batchSize"] == 48)
    assert [change["measured"] for change in code["changes"]] == [False]
    hover = await editor.client.text_document_hover_async(params)
    assert "| **48** |" in hover.contents.value
    answer = await editor.ask("skyline/revert", uri=train)
    assert answer["applied"], answer
    assert editor.text(uri) == before
    await editor.next_code(lambda code: code["batchSize"] is None and code["changes"] == [])


async def test_a_closed_file_of_a_client_that_would_send_it_is_changed_on_disk(
    start_editor, settled, capabilities
) -> None:
    file = settled("config.yaml")
    editor, train = await opened(start_editor, synchronising(capabilities), file.parent)
    await registrations(editor)
    answer = {"applied": False}
    while not answer["applied"]:
        # The editor's answer to the registration takes as long as it takes.
        answer = await editor.ask("skyline/apply", uri=train, batchSize=32, whatifs=[])
    assert file.read_text() == YAML.replace("batch_size: 16", "batch_size: 32")
    answer = await editor.ask("skyline/revert", uri=train)
    assert answer["applied"], answer
    assert file.read_text() == YAML


async def test_a_client_that_sends_no_such_file_is_told_so(start_editor, settled, capabilities) -> None:
    file = settled("config.yaml")
    editor, train = await opened(start_editor, capabilities, file.parent)
    answer = await editor.ask("skyline/apply", uri=train, batchSize=32, whatifs=[])
    assert not answer["applied"]
    assert "The number is in config.yaml, which this editor does not send" in answer["reason"]
    assert file.read_text() == YAML
    assert registered(editor) == {}
    # Neovim and others attach to such files by their own settings.
    uri = editor.open(file)
    answer = await editor.ask("skyline/apply", uri=train, batchSize=32, whatifs=[])
    assert answer["applied"], answer
    assert editor.text(uri) == YAML.replace("batch_size: 16", "batch_size: 32")


async def test_a_client_without_documents_is_given_the_change_of_the_file(
    start_editor, settled, capabilities
) -> None:
    file = settled("config.yaml")
    editor = await start_editor(capabilities=capabilities, options={"followDisk": True})
    train = (file.parent / "train.py").as_uri()
    await editor.ask("skyline/profile", uri=train)
    await editor.next_change(lambda change: change["profileId"] == "settled")
    answer = await editor.ask("skyline/apply", uri=train, batchSize=32, whatifs=[])
    assert answer["applied"], answer
    assert file.read_text() == YAML.replace("batch_size: 16", "batch_size: 32")


async def test_other_settings_files_get_no_word(start_editor, settled, capabilities, tmp_path: Path) -> None:
    file = settled("config.yaml")
    other = file.with_name("other.yaml")
    other.write_text(YAML)
    below = file.parent / "below"
    below.mkdir()
    same_name = below / "config.yaml"
    same_name.write_text(YAML)
    editor, _ = await opened(start_editor, synchronising(capabilities), file.parent)
    patterns = await registrations(editor)
    assert {pattern for each in patterns.values() for pattern in each} == {"**/config.yaml"}
    for path in (other, same_name):
        uri = editor.open(path)
        assert await editor.lenses(uri) == []
        assert await editor.hover(uri, 2) == ""
        assert await editor.hints(uri) == {}
        assert await editor.actions(uri, 2) == []


async def test_a_file_outside_the_project_is_not_asked_for(
    start_editor, settled, capabilities, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = settled("config.yaml", tmp_path_factory.mktemp("outside").resolve())
    editor, train = await opened(start_editor, synchronising(capabilities), tmp_path.resolve())
    answer = await editor.ask("skyline/apply", uri=train, batchSize=32, whatifs=[])
    assert not answer["applied"]
    assert registered(editor) == {}
    assert file.read_text() == YAML


async def test_what_is_typed_makes_the_figures_stale_by_the_number_alone(
    start_editor, settled, capabilities
) -> None:
    file = settled("config.yaml")
    editor, train = await opened(start_editor, synchronising(capabilities), file.parent)
    uri = editor.open(file)
    editor.change(uri, "# first\n" + YAML)
    (lens,) = await editor.lenses(uri)
    assert not lens.startswith("train.py: ~")
    editor.change(uri, "# first\n" + YAML.replace("batch_size: 16", "batch_size: 24"))
    await editor.next_change(lambda change: change["stale"])
    await editor.next_code(lambda code: code["batchSize"] == 24)
    lenses = await editor.lenses(uri)
    assert lenses[0].startswith("train.py: ~ stale")
    assert lenses[1] == "train.py: ▶ Profile again"
    editor.change(uri, YAML)
    await editor.next_change(lambda change: not change["stale"])
    assert (await editor.ask("skyline/codeChanges", uri=train))["batchSize"] is None


TRAIN = """\
import json
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

settings = json.loads(Path(__file__).with_name("config.json").read_text())
torch.manual_seed(0)
torch.set_num_threads(1)
data = TensorDataset(torch.randn(4096, 64), torch.randn(4096, 1))
net = nn.Linear(64, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=settings["lr"])
for epoch in range(100):
    for x, y in DataLoader(data, batch_size=settings["batch_size"]):
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
"""


@pytest.mark.capture
async def test_a_drag_and_a_save_of_the_file_measure_the_new_size(
    start_editor, capabilities, tmp_path: Path
) -> None:
    root = tmp_path.resolve()
    (root / "train.py").write_text(TRAIN)
    config = root / "config.json"
    config.write_text('{"batch_size": 32, "lr": 0.01}\n')
    editor = await start_editor(capabilities=synchronising(capabilities))
    train, uri = editor.open(root / "train.py"), editor.open(config)
    await editor.run("skyline.profile", train, {"batchPoints": 2})
    await editor.until(editor.idle)
    report = await editor.ask("skyline/profile", uri=train)
    assert report["batch_size"]["lives"]["key"] == "batch_size"
    await registrations(editor)
    answer = await editor.ask("skyline/apply", uri=train, batchSize=64, whatifs=[])
    assert answer["applied"], answer
    assert editor.text(uri) == '{"batch_size": 64, "lr": 0.01}\n'
    editor.save(config, editor.text(uri))
    now = report
    while now["batch_size"]["value"] != 64:
        await editor.next_change(lambda change: change["profileId"] is not None)
        now = await editor.ask("skyline/profile", uri=train)
    await editor.until(editor.idle)
    now = await editor.ask("skyline/profile", uri=train)
    code = await editor.ask("skyline/codeChanges", uri=train)
    assert code["batchSize"] is None
    assert [change["measured"] for change in code["changes"]] == [True]
    # Another layout runs nothing, another value does.
    bars = len(editor.progress())
    layout, value = '{\n  "batch_size": 64,\n  "lr": 0.01\n}\n', '{"batch_size": 64, "lr": 0.02}\n'
    editor.change(uri, layout)
    editor.save(config, layout)
    await asyncio.sleep(2)
    assert len(editor.progress()) == bars
    editor.change(uri, value)
    editor.save(config, value)
    await editor.until(lambda: len(editor.progress()) == bars + 1)
