"""The times of a script over its commits, asked for by a client."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from skyline.interval import Interval
from skyline.report import protocol
from skyline.trace.history_row import HistoryRow, LineTime, blob_id


def row(number: int, text: str, time_ms: float) -> bytes:
    """A profile of the day with this number, all of whose time is spent in one line."""
    made = HistoryRow(
        id=f"a{number}",
        created=f"2026-01-{number:02}T12:00:00+00:00",
        arguments=(),
        mode="measured",
        device="cpu",
        threads=1,
        torch="2.7.1",
        batch_size=16,
        iteration_ms=Interval(time_ms, time_ms - 0.1, time_ms + 0.1),
        peak_bytes=10**9,
        sources=(("train.py", blob_id(text)),),
        lines=(LineTime("train.py", text, 1, time_ms),),
    )
    return msgspec.json.encode(made) + b"\n"


async def test_the_states_of_a_script_and_the_line_that_grew(editor, project: Path) -> None:
    train = editor.open(project / "train.py")
    assert await editor.ask(protocol.COMMITS, uri=train) is None
    (project / ".skyline").mkdir(exist_ok=True)
    kept = project / ".skyline" / "train.history.jsonl"
    kept.write_bytes(row(1, "fast(batch)", 10.0) + row(2, "slow(batch)", 15.0))
    report = await editor.ask(protocol.COMMITS, uri=train)
    assert report["schema"] == "skyline.history/1"
    first, second = report["states"]
    assert (first["verdict"], second["verdict"]) == ("", "slower")
    assert second["change"] == pytest.approx(0.5)
    assert second["grown"][0]["text"] == "slow(batch)"
    assert report["slower_at"] == ["a2"]
