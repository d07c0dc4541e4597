import gzip
import json

import pytest

from skyline.cli.main import main


def test_table_json_and_timeline(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    target, timeline = tmp_path / "plan.json", tmp_path / "step.json.gz"
    words = ["plan", "--model", "gpt2", "--cluster", "p4d.24xlarge", "--gpus", "8", "--tokens", "10B"]
    page = tmp_path / "plan.html"
    files = ["--json", str(target), "--perfetto", "1", str(timeline), "--html", str(page)]
    assert main([*words, "--rows", "3", *files]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<title>Plan on p4d.24xlarge" in text
    assert "limited by" in text
    printed = capsys.readouterr().out
    assert "on p4d.24xlarge (A100-40GB)" in printed
    assert "limited by" in printed
    assert "$" in printed
    rows = json.loads(target.read_bytes())["rows"]
    assert [row["rank"] for row in rows] == [1, 2, 3]
    assert rows[0]["step_ms"]["low"] < rows[0]["step_ms"]["value"] < rows[0]["step_ms"]["high"]
    assert sum(rows[0]["step_parts_ms"].values()) == pytest.approx(rows[0]["step_ms"]["value"])
    events = json.loads(gzip.decompress(timeline.read_bytes()))["traceEvents"]
    assert any(event["name"].startswith("forward") for event in events)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a script or --model is missing"),
        (["--model", "gpt2", "train.py"], "a script or --model is missing"),
        (["--model", "gpt2", "--gpus", "8..4"], "not a number of GPUs"),
        (["--model", "gpt2", "--gpus", "12"], "whole number of nodes"),
        (["--model", "gpt2", "--budget", "$5"], "needs the amount of training"),
        (["--model", "gpt2", "--budget", "$5", "--tokens", "1B"], "price of dgx-a100 is not known"),
        (["--model", "none.json"], "cannot be read"),
        (["--model", "gpt2", "--samples", "5"], "--samples is for scripts"),
        (["train.py", "--tokens", "5"], "--tokens needs --model"),
    ],
)
def test_wrong_usage_says_what_is_wrong(words, message, capsys):
    assert main(["plan", "--cluster", "dgx-a100", *words]) == 2
    assert message in capsys.readouterr().err
