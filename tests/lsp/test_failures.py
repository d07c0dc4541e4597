"""Messages to the person when a script cannot be profiled, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import psutil
import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from skyline.report import protocol

pytestmark = pytest.mark.capture


def children_of(editor) -> list[psutil.Process]:
    return editor.process.children(recursive=True)


async def gone(processes: list[psutil.Process]) -> None:
    _, alive = await asyncio.to_thread(psutil.wait_procs, processes, 15)
    assert alive == []


async def test_a_syntax_error_is_shown_where_it_is(editor, project: Path) -> None:
    text = (project / "train.py").read_text()
    train = editor.open(project / "train.py", text.replace("net = Net()", "net = Net("))
    await editor.run(protocol.COMMAND_PROFILE, train)
    change = await editor.next_change(lambda change: change["error"])
    assert change["profileId"] is None
    line = change["errorLine"]
    assert line in range(11, 14)
    await editor.until(lambda: train in editor.client.diagnostics and bool(editor.client.messages))
    (diagnostic,) = editor.client.diagnostics[train]
    assert (diagnostic.range.start.line, diagnostic.source) == (line - 1, "skyline")
    assert diagnostic.severity == types.DiagnosticSeverity.Error
    assert len(editor.client.messages) == 1
    # Said once; the same failure again is not shouted again.
    await editor.run(protocol.COMMAND_PROFILE, train)
    await editor.next_change(lambda change: change["error"])
    assert len(editor.client.messages) == 1
    editor.change(train, text)
    await editor.until(lambda: list(editor.client.diagnostics[train]) == [])


async def test_a_program_without_training_says_so(editor, project: Path) -> None:
    (project / "measure.py").write_text("import torch\n\nprint(torch.zeros(3).sum())\n")
    measure = editor.open(project / "measure.py")
    assert await editor.lenses(measure) == []
    await editor.run(protocol.COMMAND_PROFILE, measure)
    change = await editor.next_change(lambda change: change["error"])
    assert "training" in change["error"]


async def test_a_script_that_needs_arguments_is_told_with_its_usage_text(editor, project: Path) -> None:
    parser = (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--data', required=True)\n"
    )
    (project / "train.py").write_text(f"{parser}parser.parse_args()\n{(project / 'train.py').read_text()}")
    train = editor.open(project / "train.py")
    await editor.run(protocol.COMMAND_PROFILE, train)
    change = await editor.next_change(lambda change: change["error"])
    assert change["usage"].splitlines()[0] == "usage: train.py [-h] --data DATA"
    assert change["error"].splitlines()[0].endswith("required: --data")
    assert change["usage"] in change["error"]
    await editor.run(protocol.COMMAND_PROFILE, train, {"args": ["--data", "x"], "batchPoints": 0})
    assert (await editor.next_change(lambda change: change["profileId"]))["usage"] is None


async def test_an_endless_loop_ends_at_the_time_limit(start_editor, project: Path) -> None:
    editor = await start_editor({"profile": {"timeoutS": 4}})
    (project / "train.py").write_text("import time\nimport torch\n\nwhile True:\n    time.sleep(0.1)\n")
    train = editor.open(project / "train.py")
    await editor.run(protocol.COMMAND_PROFILE, train)
    change = await editor.next_change(lambda change: change["error"])
    assert change["errorLine"] in (4, 5)
    assert editor.runs() == []


async def test_what_is_no_file_is_refused(editor) -> None:
    with pytest.raises(JsonRpcException, match="Save it as a file"):
        await editor.run(protocol.COMMAND_PROFILE, "untitled:Untitled-1")
    with pytest.raises(JsonRpcException):
        await editor.run(protocol.COMMAND_PROFILE)


async def test_questions_without_a_profile_say_what_to_do(editor, project: Path) -> None:
    train = editor.open(project / "train.py")
    with pytest.raises(JsonRpcException, match=r"skyline\.profile"):
        await editor.ask(protocol.SIMULATE, uri=train, batchSize=64, whatifs=[])
    with pytest.raises(JsonRpcException, match="batchSize"):
        await editor.ask(protocol.SIMULATE, uri=train, batchSize="many", whatifs=[])
    result = await editor.ask(protocol.APPLY, uri=train, batchSize=64, whatifs=[])
    assert not result["applied"]
    assert "skyline.profile" in result["reason"]


async def test_settings_that_make_no_sense_are_named_once(start_editor) -> None:
    editor = await start_editor({"inlayHints": {"minShare": "lots"}})
    await editor.until(lambda: bool(editor.client.messages))
    assert "skyline.inlayHints.minShare" in editor.client.messages[0].message


@pytest.mark.fresh
@pytest.mark.usefixtures("brief_start")
@pytest.mark.parametrize("way", ["shutdown", "end of input", "SIGTERM", "SIGKILL"])
async def test_no_process_is_left_behind(editor, project: Path, way: str) -> None:
    train = editor.open(project / "train.py")
    await editor.run(protocol.COMMAND_PROFILE, train)
    await editor.until(lambda: bool(children_of(editor)))
    server, children = editor.process, children_of(editor)
    assert editor.client._server is not None
    if way == "shutdown":
        await editor.client.shutdown_session()
        assert editor.client._server.returncode == 0
    elif way == "end of input":
        editor.client._server.stdin.close()
    else:
        server.send_signal(getattr(signal, way))
    await gone([server, *children])
