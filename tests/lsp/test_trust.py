"""In a workspace that is not trusted saved profiles are shown, and nothing runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from skyline.report import protocol
from skyline_lsp.features.configuration import introduced
from skyline_lsp.session import create_server

MARK = "from pathlib import Path\nPath(__file__).with_name('was-run').touch()\n"


async def test_saved_profiles_are_shown_and_nothing_runs(start_editor, profiled: Path) -> None:
    (profiled / "pyproject.toml").write_text("[tool.skyline.inlay_hints]\nenable = false\n")
    settings = {"profile": {"onSave": "always"}}
    editor = await start_editor(settings, options={"trusted": False})
    train = editor.open(profiled / "train.py")
    await editor.next_change(lambda change: change["profileId"])
    assert await editor.hints(train), "what the folder itself says is not read"
    assert (await editor.ask(protocol.CONFIG, uri=train))["trusted"] is False

    with pytest.raises(JsonRpcException, match="not trusted"):
        await editor.run(protocol.COMMAND_PROFILE, train)
    with pytest.raises(JsonRpcException, match="not trusted"):
        await editor.ask(protocol.VERIFY, uri=train, batchSize=64)
    with pytest.raises(JsonRpcException, match="not trusted"):
        await editor.ask(protocol.DEVICES, uri=train)
    editor.save(profiled / "train.py", MARK + (profiled / "train.py").read_text())
    await editor.next_change(lambda change: change["stale"])
    assert not any("Profile" in lens for lens in await editor.lenses(train))
    other = profiled / "other.py"
    other.write_text((profiled / "train.py").read_text())
    assert await editor.lenses(editor.open(other)) == []
    await asyncio.sleep(0.6)
    assert editor.runs() == []
    assert editor.progress() == []
    assert not (profiled / "was-run").exists()

    # The person says that they trust it: from then on the project's own file counts, and saving may run.
    editor.client.protocol.notify(protocol.TRUST, {"trusted": True})
    assert (await editor.ask(protocol.CONFIG, uri=train))["trusted"] is True
    assert await editor.hints(train) == {}
    assert any("Profile again" in lens for lens in await editor.lenses(train))


@pytest.mark.parametrize(
    ("options", "trusted"),
    [
        (None, True),
        ({}, True),
        ({"trusted": True}, True),
        ({"trusted": False}, False),
        ({"trusted": "no"}, False),
        ({"trusted": 0}, False),
        ({"skyline": {"trusted": False}}, False),
    ],
)
def test_what_is_no_clear_yes_is_a_no(options: object, trusted: bool) -> None:
    server = create_server()
    introduced(server, options)
    assert server.trusted is trusted
