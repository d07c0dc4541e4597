"""Scripts under launchers, run for real: ranks on gloo, with the variables and arguments that the launcher gives."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.launchers.launch import launch_of
from skyline.trace.batch_place import batch_place
from skyline.trace.profile import Profile

pytestmark = [pytest.mark.capture, pytest.mark.usefixtures("no_process_left_behind")]

Write = Callable[..., Path]
Run = Callable[..., Profile]

SHORT = {"steps": 3, "recorded": 1, "settle_s": 0.1}

RANKS = """
import argparse, os
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
parser.add_argument("--batch-size", type=int, default=6)
args = parser.parse_args()
assert args.local_rank == int(os.environ["LOCAL_RANK"]), (args.local_rank, os.environ["LOCAL_RANK"])
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(600, 4)), batch_size=args.batch_size)
for epoch in range(1000):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
"""


def launched(run: Run, path: Path, *words: str) -> Profile:
    launch = launch_of([*words, str(path)])
    return run(path, *launch.arguments, ranks=launch.ranks or 1, variables=launch.variables, **SHORT)


@pytest.mark.parametrize("number", [1, 2])
def test_deepspeed_gives_every_rank_its_number(script: Write, run: Run, number: int) -> None:
    profile = launched(run, script(RANKS), "deepspeed", f"--num_gpus={number}")
    assert profile.iteration is not None
    assert (profile.iteration.rank, profile.iteration.world_size) == (0, number)
    knob = batch_place(profile).knob
    assert knob is not None
    assert (knob.text, profile.batch_size) == ("6", 6)


def test_accelerate_starts_ranks_and_sets_the_precision(script: Write, run: Run) -> None:
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    path = script(
        """
        import torch
        from accelerate import Accelerator
        from torch.utils.data import DataLoader, TensorDataset

        batch_size = 6
        accelerator = Accelerator()
        assert accelerator.mixed_precision == "bf16"
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.randn(600, 4)), batch_size=batch_size)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for epoch in range(1000):
            for (x,) in loader:
                optimizer.zero_grad()
                accelerator.backward(model(x).sum())
                optimizer.step()
        """
    )
    words = ("accelerate", "launch", "--multi_gpu", "--num_processes", "2", "--mixed_precision", "bf16")
    profile = launched(run, path, *words)
    assert profile.iteration is not None
    assert profile.iteration.world_size == 2
    assert profile.batch_size == 6


def test_a_command_in_an_environment_runs_with_its_interpreter_and_variables(tmp_path: Path) -> None:
    uv = pytest.importorskip("uv", reason="uv is not installed").find_uv_bin()
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.10"\n'
    )
    (tmp_path / ".env").write_text("SIZE=6\n")
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parent.parent)
    (tmp_path / "train.py").write_text(
        "import os, torch\nmodel = torch.nn.Linear(4, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for step in range(100):\n    optimizer.zero_grad()\n"
        "    model(torch.randn(int(os.environ['SIZE']), 4)).sum().backward()\n    optimizer.step()\n"
    )
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "skyline", "profile", "-q", "--json", "-", "--no-save", "--budget", "0"),
            *("--steps", "3", str(uv), "run", "--no-sync", "--offline", "--env-file", ".env", "train.py"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["script"] == str(tmp_path / "train.py")
