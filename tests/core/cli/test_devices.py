"""``skyline devices``: one script on several GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

# The activations are what is large: some 8 MB a sample and more.
LARGE = """\
import torch
from torch import nn

batch_size = 1024
data = torch.utils.data.TensorDataset(torch.randn(50_000, 64), torch.randint(0, 10, (50_000,)))
loader = torch.utils.data.DataLoader(data, batch_size=batch_size)


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(64, 2048), nn.Linear(2048, 10)

    def forward(self, x):
        hidden = self.first(x).relu().unsqueeze(1).expand(-1, 1000, -1)
        return self.last(hidden.sigmoid().mean(1))


model = Wide().cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ASKING = """\
import os
import torch

batch_size = int(os.environ.get("BATCH", "8"))
number_format = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
model = torch.nn.Linear(512, 512).to("cuda", number_format)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100_000):
    loss = model(torch.randn(batch_size, 512).to("cuda", number_format)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.capture
def test_each_gpu_gets_its_time_its_largest_batch_and_its_costs(
    skyline: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.toml").write_text(
        '[[gpu]]\nname = "Lab"\nlike = "h100"\nmemory_gib = 60\n[[price]]\ngpu = "lab"\nusd_per_hour = 1.5\n'
    )
    monkeypatch.setenv("SKYLINE_DEVICES", str(tmp_path / "own.toml"))
    (tmp_path / "train.py").write_text(LARGE)
    ran = skyline("devices", "--gpu", "t4, lab,T4", "--grid", "100", "--json", "out.json", "train.py")
    assert ran.code == 0, ran.err
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["schema"] == "skyline.devices/1"
    assert report["batch_size"] == 1024
    assert report["traced_for_each"] == []
    assert report["span"] == {"epoch": True, "samples": 50_000, "iterations": 50_000 / 1024}
    t4, lab = report["devices"]
    assert [one["gpu"] for one in report["devices"]] == ["T4", "Lab"]

    assert (t4["fits"], lab["fits"]) == ("too large", "fits")
    for one in report["devices"]:
        found, usable = one["largest_batch"], one["usable_bytes"]
        assert found["traced"]
        assert one["fullest"]["batch_size"] == found["size"]
        # As many as fit: the peak is within one sample of what there is.
        assert 0 <= usable - one["fullest"]["peak_bytes"] < one["as_is"]["peak_bytes"] / 1024 * 1.5
    assert t4["largest_batch"]["size"] < 1024 < lab["largest_batch"]["size"]

    for one in report["devices"]:
        for run in (one["as_is"], one["fullest"]):
            time = run["iteration_ms"]
            assert 0 < time["low"] < time["value"] < time["high"]
            assert 0 < run["busy_share"] <= 1
            iterations = 50_000 / run["batch_size"]
            assert run["iterations"] == pytest.approx(iterations)
            assert run["time_s"]["value"] == pytest.approx(time["value"] * iterations / 1e3)
            price = one["prices"][0]["usd_per_gpu_hour"]
            assert run["cost_usd"]["high"] == pytest.approx(run["time_s"]["high"] / 3600 * price)
            kwh = run["power_watts"]["value"] * run["time_s"]["value"] / 3.6e6
            assert run["energy_kwh"]["value"] == pytest.approx(kwh)
            assert run["carbon_g"]["value"] == pytest.approx(kwh * 100)
            assert run["power_watts"]["high"] <= one["power_limit_watts"]
    assert t4["as_is"]["iteration_ms"]["value"] > 3 * lab["as_is"]["iteration_ms"]["value"]
    assert lab["prices"][0]["usd_per_hour"] == 1.5

    text = ran.out
    assert "An epoch   50,000 samples" in text
    assert "nothing was run" in text
    assert "Lab *" in text
    assert "your own figure" in text
    assert "modelled, not measured" in text
    assert max(map(len, text.splitlines())) <= 100
    (row,) = [line for line in text.splitlines() if line.startswith(" T4 ") and " GB " in line]
    cells = row.split()
    # The rate at that size has a column too only if the others leave room.
    assert cells[cells.index("no") + 1] == str(t4["largest_batch"]["size"])


@pytest.mark.capture
def test_a_script_that_asks_its_gpu_is_traced_for_each(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ASKING)
    ran = skyline(
        "devices", "-q", "--gpu", "t4,a100", "--provider", "google cloud", "--format", "json", "train.py"
    )
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)
    assert report["traced_for_each"] == ["is_bf16_supported"]
    # Nothing in the source sets the batch size: no other is tried, and the iterations are what is counted.
    assert report["span"] == {"epoch": False, "samples": None, "iterations": 1000}
    t4, a100 = report["devices"]
    assert 1.8 < t4["as_is"]["peak_bytes"] / a100["as_is"]["peak_bytes"] < 2.2
    assert {price["provider"] for price in t4["prices"]} == {"Google Cloud"}
    assert a100["prices"] == []
    assert "was not found" in a100["largest_batch"]["reason"]
    assert t4["fullest"] == t4["as_is"]
    assert t4["as_is"]["throughput"] is None
    assert t4["as_is"]["cost_usd"]["value"] > 0
    assert a100["as_is"]["cost_usd"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpu", "t4,h10", "train.py"], "no GPU called 'h10'"),
        (["--gpu", ",", "train.py"], "--gpu needs the name of a GPU"),
        (["--provider", "Acme", "train.py"], "no price of Acme is known"),
        (["--grid", "4000", "train.py"], "between 0 and 2000"),
        (["trian.py"], "Did you mean train.py?"),
        ([], "SCRIPT"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_runs(
    skyline: Run, tmp_path: Path, words: list[str], said: str
) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('it ran')\n")
    ran = skyline("devices", *words)
    assert ran.code == 2
    assert said in ran.err
    assert "it ran" not in ran.err


def test_other_commands_point_here_for_several_gpus(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LARGE)
    ran = skyline("profile", "--gpu", "t4,l4", "train.py")
    assert ran.code == 2
    assert "skyline devices --gpu t4,l4 train.py" in ran.err
