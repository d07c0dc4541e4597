from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skyline.report import protocol

QUICK = {"steps": 4, "batchPoints": 0}
DONE = {"applied": True, "reason": None, "refused": []}

pytestmark = pytest.mark.capture


async def measured(editor: Any, path: Path) -> str:
    uri = editor.open(path)
    await editor.run(protocol.COMMAND_PROFILE, uri, QUICK)
    await editor.next_change(lambda change: change["profileId"])
    await editor.until(editor.idle)
    return uri


def question(uri: str, batch_size: int | None, *whatifs: str) -> dict[str, Any]:
    return {"uri": uri, "batchSize": batch_size, "whatifs": list(whatifs)}


def verifiable(
    profile: str, batch_size: int | None, *whatifs: str, removes: list[str] | None = None
) -> dict[str, Any]:
    asked = {"batchSize": batch_size, "whatifs": list(whatifs), "removes": removes or []}
    return {"profileId": profile, **asked}


async def test_changes_stay_known_through_edits_undo_and_a_new_profile(
    editor, start_editor, project: Path
) -> None:
    train = await measured(editor, project / "train.py")
    before = editor.text(train)

    async def code() -> dict[str, Any]:
        return await editor.ask(protocol.CODE_CHANGES, uri=train)

    assert await editor.ask(protocol.APPLY, **question(train, 64, "fused_optimizer")) == DONE
    both = editor.text(train)
    now = await code()
    assert (now["batchSize"], now["whatifs"], now["removed"]) == (64, ["fused_optimizer"], [])
    first = (await editor.ask(protocol.PROFILE, uri=train))["id"]
    assert now["verify"] == verifiable(first, 64, "fused_optimizer")

    # The server reports changes that are undone and redone in the editor.
    editor.change(train, before)
    told = await editor.next_code(lambda code: not code["whatifs"])
    assert (told["batchSize"], told["changes"]) == (None, [])
    editor.change(train, "import os\n" + both)
    assert (await editor.next_code(lambda code: code["whatifs"]))["batchSize"] == 64
    # So is a number that is typed.
    editor.change(train, before.replace("batch_size=32", "batch_size=48"))
    assert (await editor.next_code(lambda code: code["batchSize"] == 48))["changes"] == []

    # One of two that were made together is taken out; the other one stays, and so does an edit next to them.
    editor.change(train, "import os\n" + both)
    assert await editor.ask(protocol.REMOVE, uri=train, whatif="fused_optimizer") == DONE
    assert editor.text(train) == "import os\n" + before.replace("batch_size=32", "batch_size=64")
    assert (await code())["whatifs"] == []
    (original,) = await editor.ask(protocol.ORIGINAL, uri=train)
    assert original == {"uri": train, "text": "import os\n" + before}

    # A new profile has the change in it; it can still be taken back, and verified over the earlier one.
    await editor.run(protocol.COMMAND_PROFILE, train, QUICK)
    await editor.next_change(lambda change: change["profileId"] not in (None, first))
    await editor.until(editor.idle)
    now = await code()
    assert (now["batchSize"], [change["measured"] for change in now["changes"]]) == (None, [True])
    assert now["verify"] == verifiable(first, 64)
    later = await start_editor()
    other = later.open(project / "train.py", editor.text(train))
    await later.next_change(lambda change: change["profileId"])
    assert len((await later.ask(protocol.CODE_CHANGES, uri=other))["changes"]) == 1
    assert await later.ask(protocol.REVERT, uri=other) == DONE
    assert later.text(other) == "import os\n" + before
    assert await editor.ask(protocol.REVERT, uri=train) == DONE
    assert editor.text(train) == "import os\n" + before
    assert (await code())["batchSize"] == 32


async def test_what_the_person_wrote_is_taken_out_and_put_back(editor, project: Path) -> None:
    script = project / "train.py"
    plain = script.read_text()
    script.write_text(plain.replace("lr=1e-3)", "lr=1e-3, fused=True)"))
    train = await measured(editor, script)
    report = await editor.ask(protocol.WHATIFS, uri=train)
    (fused,) = [one for one in report["estimates"] if one["name"] == "fused_optimizer"]
    assert fused["present"]
    assert await editor.ask(protocol.REMOVE, uri=train, whatif="fused_optimizer") == DONE
    assert editor.text(train) == plain
    code = await editor.ask(protocol.CODE_CHANGES, uri=train)
    profile = (await editor.ask(protocol.PROFILE, uri=train))["id"]
    assert code["removed"] == ["fused_optimizer"]
    assert code["verify"] == verifiable(profile, None, removes=["fused_optimizer"])
    found = await editor.ask(protocol.VERIFY, uri=train, **code["verify"], minutes=0.001)
    assert (found["whatifs"], found["predicted"], found["held"]) == (["without fused_optimizer"], None, None)
    assert "fused=True" in found["diff"].partition("\n-")[2].partition("\n+")[0]
    assert found["measured"]["rounds"] == 1
    # Put back as it was, not written again.
    assert await editor.ask(protocol.APPLY, **question(train, None, "fused_optimizer")) == DONE
    assert editor.text(train) == script.read_text()
    assert (await editor.ask(protocol.CODE_CHANGES, uri=train))["removed"] == []
    refused = await editor.ask(protocol.REMOVE, uri=train, whatif="amp")
    assert not refused["applied"]
    assert refused["reason"]


async def test_another_value_takes_the_place_of_the_one_before(start_editor, profiled: Path) -> None:
    editor = await start_editor()
    train = editor.open(profiled / "train.py")
    await editor.next_change(lambda change: change["profileId"])
    before = editor.text(train)
    assert await editor.ask(protocol.APPLY, **question(train, None, "fused_optimizer")) == DONE
    assert await editor.ask(protocol.APPLY, **question(train, None, "fused_optimizer=foreach")) == DONE
    assert "foreach=True" in editor.text(train)
    assert "fused=True" not in editor.text(train)
    assert (await editor.ask(protocol.CODE_CHANGES, uri=train))["whatifs"] == ["fused_optimizer=foreach"]
    assert await editor.ask(protocol.REMOVE, uri=train, whatif="fused_optimizer") == DONE
    assert editor.text(train) == before


async def test_what_a_profile_has_and_the_code_lost_is_verified_as_a_removal(editor, project: Path) -> None:
    train = await measured(editor, project / "train.py")
    before = editor.text(train)
    assert await editor.ask(protocol.APPLY, **question(train, None, "fused_optimizer")) == DONE
    first = (await editor.ask(protocol.PROFILE, uri=train))["id"]
    await editor.run(protocol.COMMAND_PROFILE, train, QUICK)
    await editor.next_change(lambda change: change["profileId"] not in (None, first))
    await editor.until(editor.idle)
    profile = (await editor.ask(protocol.PROFILE, uri=train))["id"]
    assert await editor.ask(protocol.REMOVE, uri=train, whatif="fused_optimizer") == DONE
    assert editor.text(train) == before
    code = await editor.ask(protocol.CODE_CHANGES, uri=train)
    assert (code["removed"], code["changes"]) == (["fused_optimizer"], [])
    assert code["verify"] == verifiable(profile, None, removes=["fused_optimizer"])


async def test_another_number_in_the_settings_file_makes_the_profile_stale(editor, project: Path) -> None:
    script, settings = project / "train.py", project / "config.json"
    settings.write_text('{\n  "batch_size": 16\n}\n')
    loaded = "import json\n" + script.read_text().replace(
        "batch_size=32", 'batch_size=json.load(open("config.json"))["batch_size"]'
    )
    script.write_text(loaded)
    train = await measured(editor, script)
    report = await editor.ask(protocol.PROFILE, uri=train)
    assert report["batch_size"]["value"] == 16
    assert report["batch_size"]["lives"]["line"] == 2
    settings.write_text('{\n  "batch_size": 160\n}\n')
    assert (await editor.next_change(lambda change: change["stale"]))["error"] is None
    settings.write_text('{\n  "lr": 0.1, "batch_size": 16\n}\n')
    await editor.next_change(lambda change: not change["stale"])
    assert editor.runs() == []


async def test_another_program_writes_the_file_while_it_is_measured(start_editor, project: Path) -> None:
    editor = await start_editor(options={"followDisk": True})
    script = project / "train.py"
    train, before = script.as_uri(), script.read_text()
    await editor.run(protocol.COMMAND_PROFILE, train, QUICK)
    await editor.next_change(lambda change: change["profileId"])
    await editor.until(editor.idle)

    def written(text: str) -> None:
        new = project / "train.py.new"
        new.write_text(text)
        new.replace(script)

    assert await editor.ask(protocol.APPLY, **question(train, None, "fused_optimizer")) == DONE
    changed = script.read_text()
    assert changed != before
    await editor.next_code(lambda code: code["whatifs"] == ["fused_optimizer"])
    await editor.until(lambda: bool(editor.runs()))
    # Restored: what is shown is what is on disk, not what was written before.
    written(before)
    assert (await editor.next_code(lambda code: not code["whatifs"]))["changes"] == []
    # Back again, with an edit elsewhere: that does not stand in the way of taking the change back.
    written("import os\n" + changed)
    await editor.next_code(lambda code: code["whatifs"] == ["fused_optimizer"])
    assert await editor.ask(protocol.REVERT, uri=train) == DONE
    assert script.read_text() == "import os\n" + before
