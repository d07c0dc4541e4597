"""Changes measured earlier are predicted again from stored profiles; the scripts stay in their repositories."""

from __future__ import annotations

import gzip
import shutil
import sys
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("tomllib", reason="the lists of scripts are read by Python 3.11 and later")
RECORDED = Path(__file__).resolve().parents[1] / "data" / "linear.profile.json.gz"
LIST = """
[commits]
"someone/lines" = "0123456789"

[[script]]
name = "fitted_line"
style = "a line"
repository = "someone/lines"
path = "train.py"
spent = "a_run"
"""


def test_a_stored_change_is_predicted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import rescored
    from whatifs import Row, Said

    from skyline.interval import Interval
    from skyline.trace.store import load

    monkeypatch.setattr(rescored, "KEPT", tmp_path / "stored")
    (tmp_path / "list.toml").write_text(LIST, encoding="utf-8")
    checkout = tmp_path / "scratch" / "checkouts" / "someone+lines"
    checkout.mkdir(parents=True)
    source = load(RECORDED).sources[0].text
    (checkout / "train.py").write_text(source, encoding="utf-8")
    kept = tmp_path / "kept" / "someone+lines-train.py"
    kept.mkdir(parents=True)
    shutil.copy(RECORDED, kept)
    one = Interval(1.0, 0.99, 1.01)
    words = ("batch_size=128",)
    row = Row(
        "someone+lines/train.py",
        Said(words, 9.0, 8.0, 10.0, 8.0, 1e6, "modelled"),
        Interval(2.0, 1.9, 2.1),
        one,
        None,
    )
    off = Row("someone+lines/train.py", row.said, row.measured, Interval(1.5, 1.4, 1.6), None)
    (kept / "rows.json").write_bytes(
        msgspec.json.encode({"batch_size=128": row, "other": off, "not run": None})
    )
    options = ["--list", str(tmp_path / "list.toml"), "--scratch", str(tmp_path / "scratch")]

    monkeypatch.setattr(
        sys, "argv", ["rescored", "--store", "a_run", "--keep", str(tmp_path / "kept"), *options]
    )
    assert rescored.main() == 0
    stored = gzip.decompress((tmp_path / "stored" / "a_run" / "fitted_line.profile.json.gz").read_bytes())
    assert source.splitlines()[0].encode() not in stored

    # The sources are found where the repository is now.
    moved = tmp_path / "elsewhere"
    (tmp_path / "scratch").rename(moved)
    monkeypatch.setattr(sys, "argv", ["rescored", *options[:3], str(moved)])
    assert rescored.main() == 0
    page = capsys.readouterr().out
    line = next(line for line in page.splitlines() if "batch_size=128" in line)
    assert "+350.0%" in line
    assert "modelled" in line
    assert page.count("fitted_line") == 1
