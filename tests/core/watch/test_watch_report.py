"""A watched run on a page: what its history becomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skyline.errors import UsageError
from skyline.watch.diary import SCHEMA, histories
from skyline.watch.watch_report import latest_report, watch_report

HEADER: dict[str, Any] = {
    "schema": SCHEMA,
    "started": "2026-01-02T03:04:05+00:00",
    "command": ["python", "train.py"],
}


def course(at_s: float, iteration: int, iteration_ms: float = 10.0, **fields: object) -> dict[str, Any]:
    usual = {
        "process": 0,
        "rank": 0,
        "wait_share": 0.2,
        "forward_share": 0.3,
        "loss": 1.5,
        "memory_bytes": 10**9,
    }
    own = {"kind": "course", "at_s": at_s, "iteration": iteration, "iteration_ms": iteration_ms}
    return {**own, **usual, "watching_s": 0.002 * at_s, **fields}


def alert(rule: str, at_s: float, rank: int = 0) -> dict[str, Any]:
    found = {"kind": "alert", "at_s": at_s, "rule": rule, "rank": rank, "iteration": int(10 * at_s)}
    return {**found, "title": f"{rule} holds", "evidence": ["12 ms"], "file": "/p/train.py", "line": 7}


def over(rule: str, at_s: float, rank: int = 0) -> dict[str, Any]:
    return {"kind": "over", "at_s": at_s, "rule": rule, "rank": rank, "iteration": int(10 * at_s)}


def test_a_run_that_goes_on_and_one_without_news() -> None:
    history = [HEADER, course(5, 500), course(10, 1000, 12.0, loss="nan")]
    report = watch_report("a.jsonl", history, 1.0, ("a.jsonl",))
    assert (report.state, report.exit_code, report.duration_s) == ("running", None, 10.0)
    assert [one.iteration_ms for one in report.points] == [10.0, 12.0]
    assert [one.loss for one in report.points] == [1.5, None]
    assert report.watching_share == pytest.approx(0.002)
    assert report.logged is None
    assert watch_report("a.jsonl", history, 60.0, ("a.jsonl",)).state == "silent"
    ended = [*history, {"kind": "end", "at_s": 11, "exit_code": 3, "alerts": 0}]
    assert watch_report("a.jsonl", ended, 60.0, ("a.jsonl",)).state == "ended"
    assert watch_report("a.jsonl", ended, 60.0, ("a.jsonl",)).exit_code == 3
    assert watch_report("a.jsonl", [HEADER], 0.0, ("a.jsonl",)).points == ()


def test_an_alert_has_the_end_of_its_own_rank() -> None:
    history = [
        HEADER,
        alert("loader_stalls", 1.0),
        alert("loader_stalls", 2.0, rank=1),
        over("loader_stalls", 3.0, rank=1),
        alert("loader_stalls", 90.0, rank=1),
        {"kind": "report", "at_s": 91.0, "message": "profile of this moment: x.json"},
    ]
    report = watch_report("a.jsonl", history, 0.0, ("a.jsonl",))
    assert [one.over_iteration for one in report.alerts] == [None, 30, None]
    assert report.messages == ("profile of this moment: x.json",)


def test_the_lowest_rank_is_shown_and_long_runs_are_thinned() -> None:
    rows = [course(number, number, float(number), rank=number % 2) for number in range(4000)]
    report = watch_report("a.jsonl", [HEADER, *rows], 0.0, ("a.jsonl",))
    assert report.ranks == 2
    assert len(report.points) == 400
    # Each point is the mean of five of the even numbers, at the place of the last one.
    assert report.points[0].iteration_ms == pytest.approx(4.0)
    assert report.points[0].iteration == 8


def test_the_latest_run_of_a_script_is_found_by_name(tmp_path: Path) -> None:
    folder = tmp_path / ".skyline"
    folder.mkdir()
    assert latest_report(tmp_path / "train.py") is None
    names = [
        "train-watch-20260101-000000",
        "train-watch-20260102-000000",
        "other-train-watch-20260103-000000",
    ]
    for name in names:
        lines = [json.dumps(HEADER), json.dumps(course(1, 10)), '{"kind": "cou']
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    assert [path.stem for path in histories(tmp_path / "train.py")] == [names[1], names[0]]
    report = latest_report(tmp_path / "train.py")
    assert report is not None
    assert (report.name, len(report.points)) == (f"{names[1]}.jsonl", 1)
    older = latest_report(tmp_path / "train.py", f"{names[0]}.jsonl")
    assert older is not None
    assert older.names == (f"{names[1]}.jsonl", f"{names[0]}.jsonl")
    with pytest.raises(UsageError, match="There is no run"):
        latest_report(tmp_path / "train.py", "../secret.jsonl")
