"""``skyline sweep``: real runs of a small script, its predictions, and what is said of wrong input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skyline.capture.held_run import TurnPace

Run = Callable[..., Any]

SCRIPT = """\
import argparse
import torch
from torch import nn

HIDDEN = 64
HEADS = 4

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
args = parser.parse_args()
device = "cuda" if torch.cuda.is_available() else "cpu"


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        assert HIDDEN % HEADS == 0, "HEADS must divide HIDDEN"
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (one.view(b, t, HEADS, c // HEADS).transpose(1, 2) for one in self.qkv(x).split(c, dim=2))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


model = Attention().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100_000):
    loss = model(torch.randn(args.batch_size, 32, HIDDEN).to(device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def train(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def swept(skyline: Run, *options: str) -> dict[str, Any]:
    ran = skyline("sweep", "train.py", "--json", "-", "--quiet", *options)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


@pytest.mark.capture
def test_points_are_measured_in_turns_and_one_that_fails_costs_a_note(
    skyline: Run, train: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyline.sweep.measured._PACE", TurnPace(turn_s=0.05))
    before = train.read_bytes()
    report = swept(skyline, "--vary", "HIDDEN=32,62,64,512", "--rounds", "3")
    assert report["schema"] == "skyline.sweep/1"
    assert report["mode"] == "measured"
    (setting,) = report["settings"]
    assert (setting["name"], setting["line"], setting["value"]) == ("HIDDEN", 5, 64)
    (series,) = report["series"]
    assert [one["values"] for one in series["points"]] == [[32], [64], [512]]
    assert [one["now"] for one in series["points"]] == [False, True, False]
    assert report["failed"] == [{"values": [62], "reason": "AssertionError: HEADS must divide HIDDEN"}]
    small, now, large = series["points"]
    assert small["peak_bytes"] < now["peak_bytes"] < large["peak_bytes"]
    assert small["flops"] < now["flops"] < large["flops"]
    assert small["iteration_ms"]["value"] < large["iteration_ms"]["value"]
    assert [one["parameters"] for one in series["points"]] == [4 * n * n + 4 * n for n in (32, 64, 512)]
    for one in series["points"]:
        time = one["iteration_ms"]
        assert 0 < time["low"] <= time["value"] <= time["high"]
        assert one["throughput"]["value"] == pytest.approx(16e3 / time["value"])
        assert one["flop_per_s"] == pytest.approx(one["flops"] / time["value"] * 1e3)
    assert train.read_bytes() == before


@pytest.mark.capture
def test_points_on_a_gpu_that_is_not_here_are_predicted(skyline: Run, train: Path, tmp_path: Path) -> None:
    ran = skyline(
        *("sweep", "train.py", "--gpu", "h100", "--vary", "HIDDEN=64:256:64", "--vary", "HEADS=4,8"),
        *("--json", "out.json", "--html", "out.html", "--batch-size", "64"),
    )
    assert ran.code == 0, ran.err
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["mode"] == "predicted"
    assert report["arguments"] == ["--batch-size", "64"]
    assert [one["others"] for one in report["series"]] == [[4], [8]]
    for series in report["series"]:
        assert [one["values"][0] for one in series["points"]] == [64, 128, 192, 256]
        for one in series["points"]:
            assert one["fits"] == "fits"
            assert 0 < one["utilisation"] < 1
            assert 0 < one["tile_share"] <= 1
            assert 0 < one["wave_share"] <= 1
            assert one["aligned_share"] == 1
            assert one["throughput"]["value"] == pytest.approx(64e3 / one["iteration_ms"]["value"])
    text = ran.out
    assert "train.py --batch-size 64: HIDDEN from 64 to 256, HEADS from 4 to 8" in text
    assert "With HEADS=8" in text
    assert "◀ now" in text
    assert "nothing ran on a GPU" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100
    page = (tmp_path / "out.html").read_text()
    assert "<svg" in page
    assert "HIDDEN 128: " in page
    assert '"schema":"skyline.sweep/1"' in page


@pytest.mark.capture
def test_values_that_run_here_set_a_prediction_for_this_processor_right(
    skyline: Run, train: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyline.sweep.measured._PACE", TurnPace(turn_s=0.05))
    report = swept(skyline, "--gpu", "cpu", "--vary", "HIDDEN=64,256,384,512", "--rounds", "3", "--runs", "2")
    assert report["mode"] == "predicted"
    points = {one["values"][0]: one for one in report["series"][0]["points"]}
    assert {value: one["provenance"] for value, one in points.items()} == {
        64: "measured", 256: "interpolated", 384: "interpolated", 512: "measured",
    }  # fmt: skip
    assert points[64]["iteration_ms"]["value"] < points[512]["iteration_ms"]["value"]
    for one in points.values():
        time = one["iteration_ms"]
        assert 0 < time["low"] <= time["value"] <= time["high"]
        assert one["fits"] == "fits"
        assert one["peak_bytes"] > 0
    assert "also ran here with 2 values" in " ".join(report["basis"])


@pytest.mark.capture
def test_a_prediction_stays_where_the_script_cannot_run_here(skyline: Run, train: Path) -> None:
    train.write_text(
        SCRIPT.replace('device = "cuda" if', 'assert torch.cuda.is_available()\ndevice = "cuda" if')
    )
    report = swept(skyline, "--gpu", "cpu", "--vary", "HIDDEN=64,128", "--rounds", "3")
    assert [one["provenance"] for one in report["series"][0]["points"]] == ["predicted"] * 2
    assert "No value could run here" in " ".join(report["notes"])


@pytest.mark.capture
def test_a_saved_profile_sets_a_prediction_right_where_nothing_runs(skyline: Run, train: Path) -> None:
    """The present value, 64, is no point of the sweep: it is traced for the fit."""
    vary = ("--gpu", "cpu", "--vary", "HIDDEN=128,256", "--runs", "0")
    before = swept(skyline, *vary)
    assert [one["provenance"] for one in before["series"][0]["points"]] == ["predicted"] * 2
    profiled = skyline("profile", "--quiet", "train.py")
    assert profiled.code == 0, profiled.err
    after = swept(skyline, *vary)
    points = after["series"][0]["points"]
    assert [(one["values"], one["provenance"]) for one in points] == [
        ([128], "interpolated"),
        ([256], "interpolated"),
    ]
    assert "fitted to the saved profile of" in " ".join(after["basis"])
    assert [one["iteration_ms"]["value"] for one in points] != [
        one["iteration_ms"]["value"] for one in before["series"][0]["points"]
    ]
    # A profile of another text, or of other arguments, says nothing of this one.
    other = swept(skyline, *vary, "--batch-size", "8")
    assert [one["provenance"] for one in other["series"][0]["points"]] == ["predicted"] * 2
    train.write_text(train.read_text(encoding="utf-8").replace("lr=0.1", "lr=0.2"), encoding="utf-8")
    changed = swept(skyline, *vary)
    assert [one["provenance"] for one in changed["series"][0]["points"]] == ["predicted"] * 2


@pytest.mark.capture
def test_an_interruption_keeps_what_is_known(
    skyline: Run, train: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skyline.predict.shape_tracer import ScriptTracer

    whole = ScriptTracer.trace
    traced: list[object] = []

    def interrupted(self: ScriptTracer) -> object:
        if len(traced) == 2:
            raise KeyboardInterrupt
        traced.append(whole(self))
        return traced[-1]

    monkeypatch.setattr(ScriptTracer, "trace", interrupted)
    ran = skyline("sweep", "train.py", "--gpu", "t4", "--vary", "HIDDEN=64:256:64", "--json", "-")
    assert ran.code == 130
    report = json.loads(ran.out)
    assert report["interrupted"]
    assert report["left"] == 2
    # The ends of the range come first.
    assert [one["values"] for one in report["series"][0]["points"]] == [[64], [256]]
    assert "interrupted: 2 points left out" in report["notes"][0]


@pytest.mark.capture
def test_if_every_point_fails_the_script_says_why(skyline: Run, train: Path) -> None:
    ran = skyline("sweep", "train.py", "--gpu", "t4", "--vary", "HIDDEN=61,62,63")
    assert ran.code == 1
    assert "HIDDEN=61 is left out: AssertionError: HEADS must divide HIDDEN" in ran.err
    assert "assert HIDDEN % HEADS == 0" in ran.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "Name a setting to vary"),
        (("--vary", "HIDEN=1,2"), "Did you mean HIDDEN"),
        (("--vary", "HIDDEN"), "has no values"),
        (("--vary", "HIDDEN=1:2"), "is not a range"),
        (("--vary", "HIDDEN=8:4096:1"), "1,000 are the limit"),
        (("--vary", "HIDDEN=1:900:1", "--vary", "HEADS=1:9:1"), "combinations"),
        (("--vary", "HIDDEN=1,2", "--vary", "HIDDEN@5=3,4"), "are the same setting"),
        (("--vary", "HIDDEN=1,2", "--gpu", "h1000"), "no GPU called"),
        (("--vary", "HIDDEN=1,2", "--budget", "10"), "has no unit"),
        (("--vary", "HIDDEN=1,2", "--rounds", "2"), "2 rounds show no spread"),
    ],
)
def test_wrong_input_is_refused_with_the_next_step(
    skyline: Run, train: Path, options: tuple[str, ...], message: str
) -> None:
    ran = skyline("sweep", "train.py", *options)
    assert ran.code == 2
    assert message in ran.err
    assert not ran.out


def test_without_a_setting_those_of_the_script_are_listed(skyline: Run, train: Path) -> None:
    assert "train.py sets: batch_size, HIDDEN, HEADS" in skyline("sweep", "train.py").err


def test_a_script_that_is_not_there_is_named(skyline: Run) -> None:
    ran = skyline("sweep", "none.py", "--vary", "a=1,2")
    assert ran.code == 2
    assert "none.py does not exist" in ran.err
