"""``skyline watch`` over a run on a simulated GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys, time
import torch
from torch import nn


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, index):
        time.sleep(float(sys.argv[1]) / 16)
        return torch.ones(16)


model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(3):
    for x in torch.utils.data.DataLoader(Data(), batch_size=16):
        optimizer.zero_grad()
        loss = model(x.cuda()).pow(2).mean()
        loss.backward()
        optimizer.step()
print(loss.item())
"""


def course(folder: Path, python: Path, wait_s: float, kernel_us: int) -> list[dict[str, object]]:
    (folder / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "skyline", "watch", "--interpreter", str(python)]
    options = [
        "--every",
        "0.05",
        "--overhead",
        "0.1",
        "--history",
        "history.jsonl",
        "--set",
        "gpu_idle.windows=4",
    ]
    ran = subprocess.run(
        [*command, *options, "train.py", str(wait_s)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "SIMULATED_GPU": f"kernel_us={kernel_us}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "watching ended" not in ran.stderr
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()[1:]]


def test_a_gpu_without_work_is_seen_by_events_on_it(gpu_python: Path, tmp_path: Path) -> None:
    entries = course(tmp_path, gpu_python, wait_s=0.05, kernel_us=20)
    alerts = {entry["rule"]: entry for entry in entries if entry["kind"] == "alert"}
    assert "cuda has no work" in str(alerts["gpu_idle"]["title"])
    assert alerts["gpu_idle"]["line"] == 1 + SCRIPT.splitlines().index(
        "    for x in torch.utils.data.DataLoader(Data(), batch_size=16):"
    )
    last = [entry for entry in entries if entry["kind"] == "course"][-1]
    # The loss went over to the host without a wait.
    assert isinstance(last["loss"], float)


@pytest.mark.long
def test_a_gpu_with_work_is_not_idle(gpu_python: Path, tmp_path: Path) -> None:
    entries = course(tmp_path, gpu_python, wait_s=0.0, kernel_us=3000)
    assert "gpu_idle" not in {entry.get("rule") for entry in entries}
