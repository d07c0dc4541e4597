"""Cells of a notebook: requests about them are answered in their lines, and edits go into them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.workspace import PositionCodec, TextDocument

from skyline.report import protocol
from skyline_lsp.notebooks import Cell, Notebooks, OpenNotebook

URI = "file:///project/train.ipynb"


def place(line: int, character: int = 0) -> dict[str, int]:
    return {"line": line, "character": character}


def span(line: int, character: int, end: int, end_character: int) -> dict[str, Any]:
    return {"start": place(line, character), "end": place(end, end_character)}


@pytest.fixture
def notebooks() -> Notebooks:
    """Script: 0 heading, 1-2 first cell, 3 heading, 4-5 last cell."""
    made = Notebooks()
    cells = [
        Cell("cell:a", 3, "import torch\nx = 1", code=True),
        Cell("cell:text", 1, "# Title", code=False),
        Cell("cell:blank", 1, "\n", code=True),
        Cell("cell:b", 7, "for y in z:\n    y.é = 1", code=True),
    ]
    made.opened(OpenNotebook(URI, 1, cells))
    return made


def ask(notebooks: Notebooks, uri: str, **params: Any) -> Any:
    message = {"id": 5, "method": "textDocument/x", "params": {"textDocument": {"uri": uri}, **params}}
    return notebooks.incoming(message)["params"]


def edited(notebooks: Notebooks, *edits: dict[str, Any]) -> list[Any]:
    change = {"textDocument": {"uri": URI, "version": 1}, "edits": list(edits)}
    message = {"id": 9, "method": "workspace/applyEdit", "params": {"edit": {"documentChanges": [change]}}}
    (sent,) = notebooks.outgoing(message)
    return sent["params"]["edit"]["documentChanges"]


def test_a_request_about_a_cell_is_one_about_its_line_of_the_script(notebooks: Notebooks) -> None:
    asked = ask(notebooks, "cell:b", position=place(1, 4))
    assert asked == {"textDocument": {"uri": URI}, "position": place(5, 4)}


def test_an_answer_has_the_items_of_the_cell_in_its_lines(notebooks: Notebooks) -> None:
    ask(notebooks, "cell:b")
    result = [{"range": span(line, 0, line, 0), "data": {"uri": URI}} for line in (1, 4, 5, 6)]
    (sent,) = notebooks.outgoing({"id": 5, "result": result})
    assert [item["range"]["start"]["line"] for item in sent["result"]] == [0, 1]
    item = {"position": place(1), **sent["result"][0]}
    resolved = notebooks.incoming({"id": 6, "method": "codeLens/resolve", "params": item})["params"]
    assert resolved["data"] == {"uri": URI}
    assert resolved["range"] == span(4, 0, 4, 0)


def test_a_blank_cell_has_nothing(notebooks: Notebooks) -> None:
    ask(notebooks, "cell:blank")
    (sent,) = notebooks.outgoing({"id": 5, "result": [{"range": span(4, 0, 4, 0)}]})
    assert sent["result"] == []


def test_other_messages_pass(notebooks: Notebooks) -> None:
    other = {"id": 5, "method": "textDocument/x", "params": {"textDocument": {"uri": "file:///x.py"}}}
    assert notebooks.incoming(other) == other
    command = {"id": 1, "method": "workspace/executeCommand", "params": {"arguments": ["cell:b", {"a": 1}]}}
    assert notebooks.incoming(command)["params"]["arguments"] == [URI, {"a": 1}]
    assert notebooks.outgoing({"id": 5, "result": [1]}) == [{"id": 5, "result": [1]}]


def test_diagnostics_go_to_every_code_cell(notebooks: Notebooks) -> None:
    where = {"location": {"uri": URI, "range": span(1, 0, 1, 3)}, "message": "here"}
    diagnostic = {"range": span(5, 4, 5, 9), "message": "slow", "relatedInformation": [where]}
    told = {"method": "textDocument/publishDiagnostics", "params": {"uri": URI, "diagnostics": [diagnostic]}}
    sent = {part["params"]["uri"]: part["params"]["diagnostics"] for part in notebooks.outgoing(told)}
    assert list(sent) == ["cell:a", "cell:blank", "cell:b"]
    assert sent["cell:a"] == sent["cell:blank"] == []
    (own,) = sent["cell:b"]
    assert own["range"] == span(1, 4, 1, 9)
    assert own["relatedInformation"][0]["location"] == {"uri": "cell:a", "range": span(0, 0, 0, 3)}


def test_an_edit_goes_into_its_cell(notebooks: Notebooks) -> None:
    first = {"range": span(2, 4, 2, 5), "newText": "64"}
    second = {"range": span(5, 0, 5, 4), "newText": "        "}
    assert edited(notebooks, first, second) == [
        {
            "textDocument": {"uri": "cell:a", "version": 3},
            "edits": [{"range": span(1, 4, 1, 5), "newText": "64"}],
        },
        {
            "textDocument": {"uri": "cell:b", "version": 7},
            "edits": [{"range": span(1, 0, 1, 4), "newText": "        "}],
        },
    ]


def test_a_line_after_the_last_one_of_a_cell_stays_in_it(notebooks: Notebooks) -> None:
    for line, uri, end in ((3, "cell:a", place(1, 5)), (6, "cell:b", place(1, 11))):
        (change,) = edited(notebooks, {"range": span(line, 0, line, 0), "newText": "y = 2\n"})
        assert change["textDocument"]["uri"] == uri
        assert change["edits"] == [{"range": {"start": end, "end": end}, "newText": "\ny = 2"}]


CELLS = {
    "setup": "%matplotlib inline\nimport torch\nfrom torch.utils.data import DataLoader, TensorDataset",
    "data": "data = TensorDataset(torch.randn(4096, 64), torch.randn(4096, 4))\n"
    "loader = DataLoader(data, batch_size=32)\nnet = torch.nn.Linear(64, 4)",
    "train": "optimizer = torch.optim.Adam(net.parameters())\nfor epoch in range(100):\n"
    "    for x, y in loader:\n        optimizer.zero_grad()\n        loss = (net(x) - y).square().mean()\n"
    "        loss.backward()\n        optimizer.step()",
}


def notebook_in(folder: Path) -> Path:
    file = folder.resolve() / "train.ipynb"
    cells = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": name,
            "metadata": {},
            "outputs": [],
            "source": text,
        }
        for name, text in CELLS.items()
    ]
    file.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return file


@pytest.mark.capture
async def test_a_client_that_works_on_files_profiles_a_notebook_without_opening_it(
    tmp_path: Path, start_editor: Any
) -> None:
    pytest.importorskip("torch")
    file = notebook_in(tmp_path)
    editor = await start_editor({"profile": {"onSave": "never"}}, options={"followDisk": True})
    await editor.run(protocol.COMMAND_PROFILE, file.as_uri(), {"steps": 4, "batchPoints": 0})
    await editor.until(editor.idle)
    report = await editor.ask(protocol.PROFILE, uri=file.as_uri())
    assert report["batch_size"]["knob"]["cell"] == "In [2]:2"
    await editor.ask(protocol.APPLY, uri=file.as_uri(), batchSize=64, whatifs=[])
    # A line of the joined script: the client edits the file through it.
    (change,) = editor.offered[-1].document_changes
    assert change.text_document.uri == file.as_uri()


@pytest.mark.capture
async def test_a_notebook_in_an_editor(tmp_path: Path, start_editor: Any) -> None:
    pytest.importorskip("torch")
    file = notebook_in(tmp_path)
    editor = await start_editor({"profile": {"onSave": "never"}})
    uris = {name: f"vscode-notebook-cell:{file}#{name}" for name in CELLS}
    for name, text in CELLS.items():
        editor.documents[uris[name]] = TextDocument(
            uris[name], text, version=1, position_codec=PositionCodec()
        )
    kind = types.NotebookCellKind.Code
    told = types.NotebookDocument(
        file.as_uri(), "jupyter-notebook", 1, [types.NotebookCell(kind, uri) for uri in uris.values()]
    )
    texts = [types.TextDocumentItem(uris[name], "python", 1, text) for name, text in CELLS.items()]
    editor.client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(told, texts))
    assert "Profile this training script" in (await editor.lenses(uris["train"]))[0]
    assert await editor.lenses(uris["data"]) == []

    await editor.run(protocol.COMMAND_PROFILE, uris["train"], {"steps": 4, "batchPoints": 0})
    await editor.until(editor.idle)
    assert "per iteration" in (await editor.lenses(uris["train"]))[0]
    hints = await editor.hints(uris["train"])
    assert 5 in hints
    assert all(line < 7 for line in hints)
    assert "forward" in await editor.hover(uris["train"], 4)

    actions = await editor.refactorings(uris["train"], 0)
    fused = await editor.resolve(next(action for action in actions if "fused" in action.title))
    (change,) = fused.edit.document_changes
    assert change.text_document.uri == uris["train"]
    assert change.edits[0].range.start.line == 0

    result = await editor.ask(protocol.APPLY, uri=uris["data"], batchSize=64, whatifs=[])
    assert result["applied"] if isinstance(result, dict) else result.applied, result
    (change,) = editor.offered[-1].document_changes
    assert change.text_document.uri == uris["data"]
    assert change.edits[0].range.start.line == 1

    # A range, as editors send it for cells.
    partial = types.TextDocumentContentChangePartial(
        types.Range(types.Position(6, 8), types.Position(6, 24)), "optimizer.step()  # é"
    )
    content = types.NotebookDocumentCellContentChanges(
        types.VersionedTextDocumentIdentifier(2, uris["train"]), [partial]
    )
    event = types.NotebookDocumentChangeEvent(cells=types.NotebookDocumentCellChanges(text_content=[content]))
    editor.client.notebook_document_did_change(
        types.DidChangeNotebookDocumentParams(
            types.VersionedNotebookDocumentIdentifier(2, file.as_uri()), event
        )
    )
    lenses = await editor.lenses(uris["train"])
    assert lenses[0].startswith("~ stale")
    assert any("Profile again" in lens for lens in lenses)
