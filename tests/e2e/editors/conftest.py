"""Inputs of a real editor: a script, the configuration that the documentation shows, and a way to report."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
BRIEF = REPOSITORY / "tests" / "brief_measurements.py"
WAIT_S = 300
TRAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
data = TensorDataset(torch.randn(4096, 64), torch.randint(0, 4, (4096,)))
loader = DataLoader(data, batch_size=32, shuffle=True)
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(100):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
"""
WAITING = """\
import time

import torch
from torch import nn
from torch.utils.data import DataLoader


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.randn(64), index % 4


loader = DataLoader(Images(), batch_size=32)
net = nn.Linear(64, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
for epoch in range(100):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
"""


@dataclass(frozen=True)
class Desk:
    """A project with a script to open, and an editor's home with no other configuration in it."""

    home: Path
    script: Path
    report: Path
    text: str = TRAIN

    @property
    def configuration(self) -> Path:
        return self.home / "config"

    def snippets(self, page: str, language: str) -> list[str]:
        """The configuration that a page of the documentation shows."""
        text = (REPOSITORY / "docs" / "editors" / page).read_text(encoding="utf-8")
        return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)

    def check_answer(self, said: str) -> None:
        """Of ``WAITING``: its bottleneck, and the change that helps."""
        said = " ".join(said.split())
        # Reading a batch takes 64 ms, whatever else runs.
        found = re.search(r"The script waits for data for (\d+) % of the step", said)
        assert found, said
        assert int(found[1]) > 50
        assert re.search(r"[Ww]orker[^:]*: \d+(\.\d+)?x .*same computation\.", said), said

    def run(self, *command: str) -> dict[str, Any]:
        """Start the editor, with ``skyline`` on its path; what was to be seen, as it reported."""
        (self.home / "bin").mkdir()
        program = self.home / "bin" / "skyline"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{BRIEF}" "$@"\n')
        program.chmod(0o755)
        here = (str(program.parent), str(Path(sys.executable).parent))
        path = os.pathsep.join((*here, os.environ.get("PATH", "")))
        own = {
            f"XDG_{name.upper()}_HOME": str(self.home / name) for name in ("config", "data", "state", "cache")
        } | {"PYTHONPATH": str(BRIEF.parent / "preloaded")}
        done = subprocess.run(
            command,
            cwd=self.script.parent,
            env=os.environ
            | own
            | {"HOME": str(self.home), "PATH": path, "REPORT": str(self.report), "TERM": "dumb"},
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_S,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        seen = json.loads(self.report.read_text(encoding="utf-8"))
        assert not seen.get("failed"), f"{seen}\n{said}"
        return seen


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    home, root = tmp_path.resolve() / "home", tmp_path.resolve() / "project"
    home.mkdir()
    root.mkdir()
    (root / "pyproject.toml").write_text("[tool.skyline.profile]\nsteps = 4\ntimeout_s = 60\n")
    (root / "train.py").write_text(TRAIN)
    return Desk(home, root / "train.py", home / "report.json")


@pytest.fixture
def waiting(desk: Desk) -> Desk:
    """The same with a script that waits for its data."""
    desk.script.write_text(WAITING)
    return replace(desk, text=WAITING)
