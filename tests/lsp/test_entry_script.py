"""A module is profiled by the script that trains with it; the person is asked where there are several."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from skyline.report import protocol

QUICK = {"steps": 4, "batchPoints": 0}


@pytest.mark.capture
async def test_the_script_that_imports_a_module_is_profiled(editor, project: Path) -> None:
    model = editor.open(project / "model.py")
    assert await editor.lenses(model) == []
    entry = await editor.ask(protocol.ENTRY_SCRIPTS, uri=model)
    train = (project / "train.py").as_uri()
    assert entry == {"itself": False, "scripts": [train]}
    assert await editor.ask(protocol.ENTRY_SCRIPTS, uri=train) == {"itself": True, "scripts": []}
    started = await editor.run(protocol.COMMAND_PROFILE, model, QUICK)
    assert started == {"status": "started", "path": None, "script": train}
    told = "model.py has no training loop. Skyline profiles train.py, which uses it."
    await editor.until(lambda: told in [message.message for message in editor.client.messages])
    change = await editor.next_change(lambda change: change["profileId"])
    assert change["uri"] == train


@pytest.mark.capture
async def test_of_several_scripts_the_person_chooses(start_editor, project: Path) -> None:
    (project / "ablation.py").write_text((project / "train.py").read_text())
    editor = await start_editor()
    editor.answer.set_result(None)
    model = editor.open(project / "model.py")
    assert (await editor.run(protocol.COMMAND_PROFILE, model, QUICK))["status"] == "idle"
    assert [action.title for action in editor.questions[0].actions or ()] == ["train.py", "ablation.py"]
    assert "model.py has no training loop" in editor.questions[0].message
    editor.answer = asyncio.get_running_loop().create_future()
    editor.answer.set_result("ablation.py")
    started = await editor.run(protocol.COMMAND_PROFILE, model, QUICK)
    assert (started["status"], started["script"]) == ("started", (project / "ablation.py").as_uri())
    await editor.run(protocol.COMMAND_CANCEL, started["script"])


async def test_a_module_that_nothing_trains_with_names_the_setting(start_editor, tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text("import torch\n\n\ndef batches():\n    return []\n")
    editor = await start_editor()
    data = editor.open(tmp_path / "data.py")
    assert await editor.ask(protocol.ENTRY_SCRIPTS, uri=data) == {"itself": False, "scripts": []}
    with pytest.raises(
        JsonRpcException, match=r"data\.py has no training loop.*skyline\.profile\.entryPoint"
    ):
        await editor.run(protocol.COMMAND_PROFILE, data)


async def test_the_module_of_a_profile_belongs_to_its_script(start_editor, profiled: Path) -> None:
    (profiled / "notes.py").write_text("import torch\nX = 1\n")
    editor = await start_editor({"profile": {"entryPoint": "train.py"}})
    notes = editor.open(profiled / "notes.py")
    entry = await editor.ask(protocol.ENTRY_SCRIPTS, uri=notes)
    assert entry == {"itself": False, "scripts": [(profiled / "train.py").as_uri()]}


@pytest.mark.capture
async def test_arguments_of_an_earlier_session_are_used_again(start_editor, project: Path) -> None:
    check = "import os, sys\nassert sys.argv[1:] == ['--lr', '1'], sys.argv\nassert os.environ['WHERE'] == 'here'\n"
    (project / "train.py").write_text(check + (project / "train.py").read_text())
    train = (project / "train.py").as_uri()
    kept = {"args": ["--lr", "1"], "env": {"WHERE": "here"}, **QUICK}
    editor = await start_editor(options={"scripts": {train: kept, "nonsense": 3}})
    editor.open(project / "train.py")
    await editor.run(protocol.COMMAND_PROFILE, train)
    change = await editor.next_change(lambda change: change["error"] or change["profileId"])
    assert change["error"] is None


@pytest.mark.capture
async def test_a_script_is_run_as_a_module_where_that_is_asked(editor, project: Path) -> None:
    package = project / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "model.py").write_text((project / "model.py").read_text())
    text = (project / "train.py").read_text().replace("from model", "from .model")
    (package / "go.py").write_text(text)
    go = editor.open(package / "go.py")
    await editor.run(protocol.COMMAND_PROFILE, go, {"module": "pack.go", "cwd": str(project), **QUICK})
    change = await editor.next_change(lambda change: change["error"] or change["profileId"])
    assert change["error"] is None
