from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

TRAINING = """\
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
batch_size = 16
data = torch.utils.data.TensorDataset(torch.randn(4000, 256), torch.randint(0, 10, (4000,)))
loader = torch.utils.data.DataLoader(data, batch_size=batch_size)
model = nn.Sequential(nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_the_table(skyline: Run) -> None:
    ran = skyline("gpus")
    assert ran.code == 0
    assert "H100" in ran.out
    assert "RTX 4090" in ran.out
    one = skyline("gpus", "nvidia a100 80gb pcie", "--json", "-")
    assert [spec["name"] for spec in json.loads(one.out)["gpus"]] == ["A100-80GB"]


def test_an_unknown_gpu_is_answered_with_the_nearest(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    part = skyline("gpus", "NVIDIA A100-SXM4-40GB MIG 1g.5gb")
    assert "is a part of a divided GPU (MIG 1g.5gb); only whole GPUs are known" in part.err
    assert "Predict for A100" in part.err
    for words in (["gpus", "h10"], ["profile", "--gpu", "h10", "train.py"]):
        ran = skyline(*words)
        assert ran.code == 2
        assert "Did you mean H100" in ran.err


def test_a_gpu_and_the_cpu_contradict_each_other(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    ran = skyline("profile", "--gpu", "h100", "--device", "cpu", "train.py")
    assert ran.code == 2
    assert "contradict" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpu", "h100", "--memory", "24"], "a number without a unit; write 24GB"),
        (["--gpu", "h100", "--memory", "24Gbit"], "Gbit is not a unit of memory here"),
        (["--memory", "24GB"], "--memory limits the memory of a predicted GPU, and --gpu is missing"),
    ],
)
def test_a_memory_that_cannot_be_used_says_why(
    skyline: Run, tmp_path: Path, words: list[str], said: str
) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    ran = skyline("profile", *words, "train.py")
    assert ran.code == 2
    assert said in " ".join(ran.err.split())


@pytest.mark.capture
def test_a_limit_takes_the_place_of_the_memory(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    ran = skyline("profile", "--gpu", "a100", "--memory", "0.7GB", "--json", "report.json", "train.py")
    assert ran.code == 0, ran.err
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["memory"]["capacity_bytes"] == 700_000_000
    largest = report["prediction"]["largest_batch"]
    # The context and the fragments leave 95 MB.
    assert 500 < largest < 4000
    assert f"The largest batch that fits 700 MB is {largest}" in " ".join(ran.out.split())
    again = skyline("whatif", "--gpu", "a100", "train.py", "batch_size=32", "--quiet")
    assert again.code == 0, again.err
    # The profile with the limit does not answer for the whole GPU.
    assert "of 85.0 GB" in " ".join(again.out.split())


@pytest.mark.capture
def test_a_script_is_predicted_for_a_gpu_that_is_not_here(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    ran = skyline("profile", "--gpu", "t4", "--json", "report.json", "train.py")
    assert ran.code == 0, ran.err
    assert "nothing was run" in ran.out
    assert "(predicted)" in ran.out
    assert "fits into the memory of the T4" in ran.out
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["mode"] == "predicted"
    assert report["device"]["kind"] == "cuda"
    assert report["prediction"]["gpu"] == "T4"
    time = report["iteration_ms"]
    assert 0 < time["low"] < time["value"] < time["high"]
    assert report["memory"]["peak_bytes"]["value"] > 2 * 4 * (256 * 4096 + 4096 * 10)
    assert report["memory"]["capacity_bytes"] < 16e9
    # The batch was traced at several sizes, and none of them was measured.
    assert {16, 32} <= {point["batch_size"] for point in report["curve"]}
    assert not any(point["measured"] for point in report["curve"])
    lines = {line["line"]: line for line in report["lines"] if line["file"]}
    assert lines[12]["forward_ms"] > 0
    assert lines[12]["backward_ms"] > 0
    page = next((tmp_path / ".skyline").glob("*.html")).read_text()
    assert "nothing was run" in page
    # A saved answer is valid for that GPU only.
    again = skyline("whatif", "--gpu", "T4", "train.py", "batch_size=32")
    assert again.code == 0
    assert "from the profile of" in again.err
    shown = skyline("show", "train.py")
    assert "predicted" in shown.out


@pytest.mark.capture
def test_a_script_that_stays_on_the_cpu_has_nothing_to_predict(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        TRAINING.replace('"cuda" if torch.cuda.is_available() else "cpu"', '"cpu"')
    )
    ran = skyline("profile", "--gpu", "h100", "train.py")
    assert ran.code == 3
    assert "never moves its model to a GPU" in ran.err


@pytest.mark.parametrize("width", [80, 100, 140])
def test_the_table_fits_the_terminal_and_names_its_units(
    skyline: Run, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    ran = skyline("gpus")
    assert max(len(line) for line in ran.out.splitlines()) <= width
    assert "RTX 4090" in ran.out
    assert "GB (10^9 bytes)" in ran.out
    assert "GiB" not in ran.out
    assert ("GeForce" in ran.out) is (width > 100)
