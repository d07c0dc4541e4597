"""Watched runs, asked for by a client."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from skyline.report import protocol
from skyline.watch.course import Course
from skyline.watch.diary import Diary
from skyline.watch.records import Start, Window
from skyline.watch.rule import Alert


def watched(path: Path, *, ends: bool) -> None:
    """The history of a run of fifty iterations with an alert, as the watcher writes it."""
    diary, course = Diary(path, ["python", "train.py"]), Course()
    course.add(Start(process=1))
    course.add(
        Window(iteration=50, iterations=50, seconds=0.5, typical_s=0.01, wait_s=0.1, own_s=0.3, loss=2.0)
    )
    diary.note_course(0, course)
    diary.note_alert("loader_stalls", Alert("the loop waits for data 20 % of the time"), course)
    if ends:
        diary.note("end", exit_code=0, alerts=1)
    diary.close()


async def test_the_latest_run_is_told_and_others_by_name(editor, project: Path) -> None:
    train = editor.open(project / "train.py")
    assert await editor.ask(protocol.WATCHED, uri=train) is None
    first, second = (f"train-watch-2026010{day}-000000.jsonl" for day in (1, 2))
    watched(project / ".skyline" / first, ends=True)
    watched(project / ".skyline" / second, ends=False)
    report = await editor.ask(protocol.WATCHED, uri=train)
    assert (report["name"], report["names"], report["state"]) == (second, [second, first], "running")
    (point,) = report["points"]
    assert point["iteration_ms"] == pytest.approx(10)
    assert point["wait_share"] == pytest.approx(0.2)
    assert point["forward_share"] == pytest.approx(0.4)
    assert report["alerts"][0]["rule"] == "loader_stalls"
    earlier = await editor.ask(protocol.WATCHED, uri=train, name=first)
    assert (earlier["state"], earlier["exit_code"]) == ("ended", 0)
    with pytest.raises(JsonRpcException, match="There is no run nothing"):
        await editor.ask(protocol.WATCHED, uri=train, name="nothing")
    (project / ".skyline" / second).write_text(json.dumps({"schema": "another"}))
    with pytest.raises(JsonRpcException, match="is not a history of skyline watch"):
        await editor.ask(protocol.WATCHED, uri=train)
