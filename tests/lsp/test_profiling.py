"""The whole way in a real editor session: profile, look, predict, rewrite, take back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from skyline.report import protocol

pytestmark = pytest.mark.capture

QUICK = {"steps": 4, "batchPoints": 0}
DONE = {"applied": True, "reason": None, "refused": []}


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines()) if part in line)


async def test_profile_look_predict_apply_and_take_back(editor, project: Path) -> None:
    # Windows line ends, and a character of two UTF-16 units before the literal that will be rewritten.
    text = (project / "train.py").read_text().replace("loader = ", 'note = "😋"; loader = ')
    (project / "train.py").write_bytes(text.replace("\n", "\r\n").encode())
    train, model = editor.open(project / "train.py"), editor.open(project / "model.py")
    before = editor.text(train)
    assert "\r\n" in before
    assert await editor.lenses(train) == ["▶ Profile this training script with Skyline"]
    assert await editor.hints(train) == {}
    assert await editor.ask(protocol.PROFILE, uri=train) is None

    started = await editor.run(protocol.COMMAND_PROFILE, train, {"steps": 4, "batchPoints": 1})
    assert started["status"] == "started"
    again = await editor.run(protocol.COMMAND_PROFILE, train, {"steps": 4, "batchPoints": 1})
    assert again["status"] == "running"
    await editor.until(editor.idle)
    (bar,) = editor.progress()
    assert [bar[0].kind, bar[-1].kind] == ["begin", "end"]
    assert bar[0].title == "Profiling train.py"
    assert bar[0].cancellable
    shares = [value.percentage for value in bar[:-1]]
    assert len(bar) > 3
    assert shares == sorted(shares)

    change = await editor.next_change(lambda change: True)
    assert (change["uri"], change["stale"], change["error"]) == (train, False, None)
    profile = await editor.ask(protocol.PROFILE, uri=train)
    assert profile["schema"] == "skyline.profile/1"
    assert "per iteration" in bar[-1].message
    assert editor.refreshed["lens"] > 0
    assert editor.refreshed["hint"] > 0

    (first, *_) = await editor.lenses(train)
    assert first == bar[-1].message
    hints = await editor.hints(train)
    assert line_of(before, "net(x)") in hints or line_of(before, "loss.backward()") in hints
    assert all(hint.endswith((" ms", " µs", " s")) for hint in hints.values())
    assert await editor.hints(model), "lines of an imported file have their hints too"
    (busiest, *_) = (row for row in profile["lines"] if row["file"] == str(project / "model.py"))
    hover = await editor.hover(model, busiest["line"] - 1)
    assert "forward" in hover
    assert "measured" in hover
    assert await editor.hover(model, 2) == ""

    findings = editor.client.diagnostics[train]
    assert {finding.code for finding in findings} == {finding["code"] for finding in profile["findings"]}
    # Warnings are those that take a fifth of the iteration and more, as the machine has it.
    known = {types.DiagnosticSeverity.Information, types.DiagnosticSeverity.Warning}
    assert {finding.severity for finding in findings} <= known
    unfused = next(finding for finding in findings if finding.code == "SKY301")
    assert unfused.code_description.href.endswith("/docs/findings/SKY301.md")
    (evidence, *_) = unfused.related_information
    assert evidence.location.uri == train
    assert evidence.location.range.start.line == line_of(before, "optimizer.step()")
    assert "tensors" in evidence.message
    (fix,) = await editor.fixes(train, unfused.range.start.line)
    assert "predicted -" in fix.title
    assert fix.edit is not None
    at = unfused.range.start.line
    fused = next(action for action in await editor.refactorings(train, at) if action.title == fix.title)
    assert fused.edit == fix.edit
    everything = await editor.actions(train, at)
    assert [action.kind for action in everything if action.title == fix.title] == ["quickfix"]
    workers = await editor.refactorings(train, line_of(before, "DataLoader(data"))
    assert any("predicted" in action.title and action.edit for action in workers)
    assert await editor.refactorings(train, line_of(before, "manual_seed")) == []

    whatifs = await editor.ask(protocol.WHATIFS, uri=train)
    assert whatifs["schema"] == "skyline.whatif/2"
    estimate = await editor.ask(protocol.SIMULATE, uri=train, batchSize=64, whatifs=[])
    assert estimate["batch_size"] == 64
    assert estimate["throughput"]["value"] > profile["throughput"]["value"]
    assert estimate["curve"] is None
    as_is = await editor.ask(protocol.SIMULATE, uri=train, curve=True)
    assert as_is["curve"] == profile["curve"]
    fused = await editor.ask(protocol.SIMULATE, uri=train, whatifs=["fused_optimizer"], curve=True)
    assert {point["batch_size"] for point in fused["curve"]} >= {
        point["batch_size"] for point in profile["curve"]
    }
    assert not any(point["measured"] for point in fused["curve"])
    best = await editor.ask(protocol.BEST, uri=train, semantics="exact")
    assert best["estimate"]["semantics"] == "exact"
    assert [part["name"] for part in best["parts"]] == [
        choice.partition("=")[0] for choice in best["choices"]
    ]
    with pytest.raises(JsonRpcException, match="nonsense"):
        await editor.ask(protocol.SIMULATE, uri=train, batchSize=None, whatifs=["nonsense=1"])

    question = {"uri": train, "batchSize": 64, "whatifs": []}
    preview = await editor.ask(protocol.PREVIEW, **question)
    assert [edit["newText"] for edit in preview["edits"]] == ["64"]
    assert "loader = DataLoader(data, batch_size=64, shuffle=True)" in preview["diff"]
    assert editor.text(train) == before

    assert await editor.ask(protocol.APPLY, **question) == DONE
    assert editor.text(train) == before.replace("batch_size=32", "batch_size=64")
    assert editor.labels == ["Skyline: batch size 64"]  # one edit, so one undo step
    await editor.next_change(lambda change: change["stale"])
    (first, *_) = await editor.lenses(train)
    assert first.startswith("~ stale · ")
    # The prepared edit is for another text: the edit is made again when it is wanted.
    late = next(action for action in await editor.refactorings(train, at) if action.title == fix.title)
    assert late.edit is None
    assert (await editor.resolve(late)).edit is not None

    # A second change on top of it, then both taken back, the latest first.
    fused = {"uri": train, "batchSize": None, "whatifs": ["fused_optimizer"]}
    assert await editor.ask(protocol.APPLY, **fused) == DONE
    assert "lr=1e-3, fused=True)" in editor.text(train)
    assert await editor.ask(protocol.REVERT, uri=train) == DONE
    assert editor.text(train) == before.replace("batch_size=32", "batch_size=64")
    assert await editor.ask(protocol.REVERT, uri=train) == DONE
    assert editor.text(train) == before
    await editor.next_change(lambda change: not change["stale"])
    refused = await editor.ask(protocol.REVERT, uri=train)
    assert not refused["applied"]
    assert refused["reason"]

    shown = await editor.run(protocol.COMMAND_SHOW_REPORT, train)
    assert Path(shown["path"]).read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")
    assert [params.uri for params in editor.client.shown_documents] == [Path(shown["path"]).as_uri()]
    exported = await editor.run(protocol.COMMAND_EXPORT, train, {"format": "json", "path": "out/report.json"})
    assert (project / "out" / "report.json").is_file()
    assert exported == {
        "status": "written",
        "path": str(project / "out" / "report.json"),
        "script": None,
    }


async def test_edits_after_the_profile(start_editor, profiled: Path) -> None:
    editor = await start_editor()
    train = editor.open(profiled / "train.py")
    before = editor.text(train)
    await editor.next_change(lambda change: change["profileId"])
    hints = await editor.hints(train)
    backward = line_of(before, "loss.backward()")
    assert backward in hints

    # Two lines more above: everything moves with its line, and says that it is of an older text.
    editor.change(train, "import os\nimport sys\n" + before)
    assert await editor.hints(train) == {line + 2: f"~ {label}" for line, label in hints.items()}
    # The line itself changed: what was measured is not about it any more.
    editor.change(train, before.replace("loss.backward()", "loss.backward(retain_graph=True)"))
    assert set(await editor.hints(train)) == set(hints) - {backward}

    # The knob reads differently now: the rewrite is planned on that text.
    editor.change(train, before.replace("batch_size=16", "batch_size=8"))
    assert await editor.ask(protocol.APPLY, uri=train, batchSize=64, whatifs=[]) == DONE
    assert editor.text(train) == before.replace("batch_size=16", "batch_size=64")

    # Applied, then edited elsewhere by hand: the edit stays when the change is taken back.
    editor.change(train, editor.text(train) + "# mine\n")
    assert await editor.ask(protocol.REVERT, uri=train) == DONE
    assert editor.text(train) == before.replace("batch_size=16", "batch_size=8") + "# mine\n"

    # Edited in its very place: taking it back would guess.
    editor.change(train, before)
    assert await editor.ask(protocol.APPLY, uri=train, batchSize=64, whatifs=[]) == DONE
    editor.change(train, editor.text(train).replace("batch_size=64", "batch_size=65"))
    assert not (await editor.ask(protocol.REVERT, uri=train))["applied"]
    assert "batch_size=65" in editor.text(train)
    editor.change(train, before)

    # Another editor on the same project finds the saved profile, and runs nothing by itself.
    later = await start_editor()
    later.open(profiled / "train.py")
    change = await later.next_change(lambda change: True)
    assert change["profileId"]
    assert not change["stale"]
    assert (await later.lenses(train))[0] == change["headline"]
    assert later.progress() == []


async def test_a_client_without_documents_saves_on_disk_and_questions_are_answered_meanwhile(
    start_editor, project: Path
) -> None:
    editor = await start_editor(options={"followDisk": True})
    train = (project / "train.py").as_uri()
    await editor.run(protocol.COMMAND_PROFILE, train, QUICK)
    first = await editor.next_change(lambda change: change["profileId"])
    await editor.until(editor.idle)
    # Another program replaces a file that the script imports. The new one waits, so that the run lasts as
    # long as the questions do.
    model = project / "model.py"
    new = project / "model.py.new"
    asked_enough = project / "asked_enough"
    waiting = f"import os, time\nwhile not os.path.exists({str(asked_enough)!r}): time.sleep(0.02)\n"
    new.write_text(waiting + model.read_text().replace("256", "128"))
    new.replace(model)
    await editor.next_change(lambda change: change["stale"])
    await editor.until(lambda: len(editor.progress()) == 2 and bool(editor.runs()))
    asked = [editor.ask(protocol.SIMULATE, uri=train, batchSize=None, whatifs=[]) for _ in range(20)]
    answers = await asyncio.gather(*asked)
    assert len({answer["iteration_ms"]["value"] for answer in answers}) == 1
    assert not editor.idle(), "the run must still be going on for this to mean anything"
    lenses = await editor.lenses(train)
    assert any(lens.startswith("Profiling, ") for lens in lenses)
    asked_enough.touch()
    second = await editor.next_change(lambda change: not change["stale"])
    assert second["error"] is None
    assert second["profileId"] != first["profileId"]
    await editor.until(editor.idle)

    # A change to a file that is open nowhere goes to the disk, and so does taking it back.
    script = project / "train.py"
    before = script.read_bytes()
    fused = {"uri": train, "batchSize": None, "whatifs": ["fused_optimizer"]}
    assert await editor.ask(protocol.APPLY, **fused) == DONE
    assert b"fused=True" in script.read_bytes()
    await editor.until(lambda: len(editor.progress()) == 3)  # it is profiled again by itself
    assert await editor.ask(protocol.REVERT, uri=train) == DONE
    assert script.read_bytes() == before


async def test_cancelling_from_the_progress_bar(editor, project: Path) -> None:
    train = editor.open(project / "train.py")
    await editor.run(protocol.COMMAND_PROFILE, train)
    await editor.until(lambda: any(value.kind == "begin" for bar in editor.progress() for value in bar))
    await editor.until(lambda: bool(editor.runs()))
    (token,) = editor.client.progress_reports
    editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))
    await editor.until(lambda: editor.client.progress_reports[token][-1].kind == "end")
    assert editor.client.progress_reports[token][-1].message == "cancelled"
    # The system may take a moment to bury a process.
    await editor.until(lambda: editor.runs() == [])
    assert await editor.ask(protocol.PROFILE, uri=train) is None
    assert await editor.run(protocol.COMMAND_CANCEL, train) == {
        "status": "idle",
        "path": None,
        "script": None,
    }
    assert await editor.lenses(train) == ["▶ Profile this training script with Skyline"]


async def test_the_newest_request_wins_and_an_exception_keeps_what_it_found(editor, project: Path) -> None:
    train = editor.open(project / "train.py")
    on_disk = editor.text(train)
    await editor.run(protocol.COMMAND_PROFILE, train, QUICK)
    await editor.until(lambda: bool(editor.runs()))
    # Nothing is saved: what runs is the buffer.
    good = on_disk.replace("batch_size=32", "batch_size=16")
    editor.change(train, good)
    restarted = await editor.run(protocol.COMMAND_PROFILE, train, QUICK)
    assert restarted["status"] == "restarted"
    shown = await editor.next_change(lambda change: change["profileId"])
    first = await editor.next_change(lambda change: change["profileId"] not in {None, shown["profileId"]})
    profile = await editor.ask(protocol.PROFILE, uri=train)
    assert profile["batch_size"]["value"] == 16
    await editor.until(lambda: len(editor.progress()) == 2 and editor.idle())
    assert editor.progress()[0][-1].message == "stopped for a newer version"
    assert (project / "train.py").read_text() == on_disk

    editor.change(train, good.replace("loss.backward()", "loss.backwards()"))
    await editor.run(protocol.COMMAND_PROFILE, train, QUICK)
    change = await editor.next_change(lambda change: change["error"])
    assert "backwards" in change["error"]
    assert (change["stale"], change["headline"]) == (True, first["headline"])
    assert change["errorLine"] == line_of(good, "loss.backward()") + 1
    assert (await editor.ask(protocol.PROFILE, uri=train))["id"] == profile["id"]
    # Undone, the failure is over, and what was measured holds.
    editor.change(train, good)
    change = await editor.next_change(lambda change: not change["stale"])
    assert (change["error"], change["profileId"]) == (None, first["profileId"])
