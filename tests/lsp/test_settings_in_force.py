"""Settings of folders: what a client says for one of them, what a project's file says, and what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from skyline.report import protocol
from skyline.settings.source import from_words
from skyline_lsp.settings import SettingsBook


def test_a_folder_has_its_own_settings_over_those_of_all(tmp_path: Path) -> None:
    book = SettingsBook(from_words(["profile.steps=9"]))
    book.at_start({"gpu": "start", "interpreter": "start", "profile": {"steps": 2}})
    book.from_client({"": {"gpu": "all"}, str(tmp_path): {"hover": {"enable": False}}})
    inside, outside = str(tmp_path / "train.py"), str(tmp_path.parent / "train.py")
    assert not book.at(inside).hover.enable
    assert book.at(outside).hover.enable
    for path in (inside, outside):
        assert (book.at(path).gpu, book.at(path).interpreter) == ("all", "start")
        assert book.at(path).profile.steps == 9
    # A folder whose name only begins alike is another one.
    assert book.at(f"{tmp_path}2/train.py").hover.enable


def test_each_problem_is_told_once(tmp_path: Path) -> None:
    book = SettingsBook()
    book.at_start({"gpu": 3})
    (tmp_path / "pyproject.toml").write_text("[tool.skyline]\ngpuu = 'x'\n")
    path = str(tmp_path / "train.py")
    assert [one.partition(" ")[0] for one in book.news(None)] == ["skyline.gpu"]
    (news,) = book.news(path)
    assert "gpuu" in news
    assert book.news(path) == ()
    book.trusted = False
    book.forget()
    assert book.resolved(path).problems == book.resolved(None).problems


async def test_origins_are_told_and_findings_are_chosen(start_editor, profiled: Path) -> None:
    (profiled / "pyproject.toml").write_text(
        "[tool.skyline.diagnostics]\nignore = ['SKY304']\nwarn_at = 0.9\n[tool.skyline.profile]\nsteps = 'x'\n"
    )
    editor = await start_editor({"hover": {"enable": False}}, options={"gpu": "h100"})
    train = editor.open(profiled / "train.py")
    await editor.next_change(lambda change: change["profileId"])
    found = await editor.ask(protocol.CONFIG, uri=train)
    origins = {entry["key"]: (entry["value"], entry["origin"]) for entry in found["settings"]}
    assert origins["hover.enable"] == (False, "editor")
    assert origins["gpu"] == ("h100", "editor")
    assert origins["diagnostics.warnAt"] == (0.9, "pyproject")
    assert origins["enable"] == (True, "default")
    (problem,) = found["problems"]
    assert "tool.skyline.profile.steps" in problem
    assert [message.message for message in editor.client.messages] == [f"Skyline settings: {problem}"]
    assert await editor.hover(train, 10) == ""
    await editor.until(lambda: train in editor.client.diagnostics)
    codes = {one.code: one.severity for one in editor.client.diagnostics[train]}
    assert set(codes) == {"SKY301", "SKY101"}
    assert set(codes.values()) == {types.DiagnosticSeverity.Information}

    editor.client.set_configuration({"skyline": {"diagnostics": {"warnAt": 0.1, "ignore": []}}})
    editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(None))
    await editor.until(lambda: len(editor.client.diagnostics[train]) == 3)
    codes = {one.code: one.severity for one in editor.client.diagnostics[train]}
    assert codes["SKY301"] == types.DiagnosticSeverity.Warning
    assert codes["SKY101"] == types.DiagnosticSeverity.Information, "there is no edit that cures it"
    assert await editor.hover(train, 10)

    editor.client.set_configuration({"skyline": {"enable": False}})
    editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(None))
    await editor.until(lambda: not editor.client.diagnostics[train])
    assert (await editor.hints(train), await editor.lenses(train), await editor.hover(train, 10)) == (
        {},
        [],
        "",
    )
    assert await editor.actions(train, 6) == []


async def test_an_entry_point_stands_for_files_that_train_nothing(start_editor, profiled: Path) -> None:
    (profiled / "other.py").write_text("x = 1\n")
    editor = await start_editor({"profile": {"entryPoint": "missing/train.py"}})
    other = editor.open(profiled / "other.py")
    with pytest.raises(JsonRpcException, match=r"no .*missing/train\.py.*entryPoint"):
        await editor.run(protocol.COMMAND_PROFILE, other)
    (profiled / "missing").mkdir()
    (profiled / "missing" / "train.py").write_text("raise SystemExit('it was this one')\n")
    await editor.run(protocol.COMMAND_PROFILE, other)
    change = await editor.next_change(lambda change: change["error"])
    assert change["uri"] == (profiled / "missing" / "train.py").as_uri()
