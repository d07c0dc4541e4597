"""Effects that a save has and does not have; and reports before the profile is there."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psutil
import pytest

from skyline.report import protocol

pytestmark = pytest.mark.capture

QUICK = {"steps": 4, "batchPoints": 0}
# Well beyond what saves are left to settle for.
QUIET_S = 0.8


async def profiled(editor, path: Path) -> str:
    uri = path.as_uri()
    await editor.run(protocol.COMMAND_PROFILE, uri, QUICK)
    await editor.next_change(lambda change: change["profileId"])
    await editor.until(editor.idle)
    return uri


async def test_first_figures_come_before_the_profile_and_stand_in_the_lens(editor, project: Path) -> None:
    train = editor.open(project / "train.py")
    await editor.run(protocol.COMMAND_PROFILE, train, QUICK)
    at_once = await asyncio.wait_for(editor.measuring.get(), 60)
    assert (at_once["uri"], at_once["batchSize"], at_once["iterationMs"]) == (train, 32, None)
    assert at_once["text"] == "batch 32 · measuring…"
    timed = await asyncio.wait_for(editor.measuring.get(), 60)
    assert editor.changes.empty(), "the profile itself is not there yet"
    assert timed["iterationMs"]["value"] > 0
    assert timed["throughput"]["value"] == pytest.approx(32e3 / timed["iterationMs"]["value"])
    assert timed["scriptSeconds"] > 0
    shown = await editor.next_change(lambda change: change["profileId"])
    finished = await editor.next_change(lambda change: change["profileId"] not in {None, shown["profileId"]})
    await editor.until(editor.idle)
    assert (await editor.lenses(train))[0] == finished["headline"]


async def test_only_what_changes_the_run_runs_again(editor, project: Path) -> None:
    (project / "settings.py").write_text("WIDTH = 1\n")
    train = project / "train.py"
    text = "import settings\n" + train.read_text()
    train.write_text(text)
    uri = await profiled(editor, train)
    hints = await editor.hints(uri)
    assert hints

    # A comment and two empty lines above everything: the numbers stay and move with their lines.
    editor.save(train, "# what this is for\n\n" + text)
    await asyncio.sleep(QUIET_S)
    assert len(editor.progress()) == 1
    assert await editor.hints(uri) == {line + 2: label for line, label in hints.items()}
    assert not any("stale" in lens for lens in await editor.lenses(uri))

    # A module of which no line takes any time is a part of the run all the same.
    editor.save(project / "settings.py", "WIDTH = 2\n")
    await editor.until(lambda: len(editor.progress()) == 2)
    await editor.until(editor.idle)


async def test_a_failure_is_cured_in_the_module_that_caused_it(editor, project: Path) -> None:
    (project / "settings.py").write_text("WIDTHS = {}\n")
    train = project / "train.py"
    train.write_text("import settings\nwidth = settings.WIDTHS['first']\n" + train.read_text())
    await editor.run(protocol.COMMAND_PROFILE, train.as_uri(), QUICK)
    await editor.next_change(lambda change: change["error"])
    await editor.until(editor.idle)
    editor.save(project / "settings.py", "WIDTHS = {'first': 1}\n")
    change = await editor.next_change(lambda change: change["profileId"])
    assert change["error"] is None


@pytest.mark.fresh
@pytest.mark.usefixtures("brief_start")
@pytest.mark.skipif(sys.platform != "linux", reason="runs are forked on Linux alone")
async def test_two_servers_have_a_resident_process_each_and_take_it_along(
    start_editor, project: Path
) -> None:
    first, second = await start_editor(), await start_editor(options={"warmStart": False})
    uri = (project / "train.py").as_uri()
    for editor in (first, second):
        await editor.run(protocol.COMMAND_PROFILE, uri, QUICK)
    for editor in (first, second):
        await editor.next_change(lambda change: change["profileId"])
        await editor.until(editor.idle)
    (resident,) = first.process.children()
    assert resident.name() == "skyline-warm"
    assert second.process.children() == []
    first.process.kill()
    _, alive = await asyncio.to_thread(psutil.wait_procs, [resident], 15)
    assert alive == []
