"""Scripts that are started, and start others, in different ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.errors import CaptureImpossible, ScriptFailed
from skyline.trace.profile import Profile

pytestmark = [pytest.mark.capture, pytest.mark.usefixtures("no_process_left_behind")]

Write = Callable[..., Path]
Run = Callable[..., Profile]

SHORT = {"steps": 3, "recorded": 1, "settle_s": 0.1}


def test_a_module_of_a_package_with_relative_imports(tmp_path: Path, run: Run) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text("import torch\n\ndef model():\n    return torch.nn.LSTM(8, 8)\n")
    train = package / "train.py"
    train.write_text(
        "import sys\n"
        "import torch\n"
        "from . import parts\n"
        "assert (__name__, __package__, __spec__.name) == ('__main__', 'package', 'package.train')\n"
        "assert sys.argv[1:] == ['--fast']\n"
        "model = parts.model()\n"
        "optimizer = torch.optim.Adam(model.parameters())\n"
        "while True:\n"
        "    optimizer.zero_grad()\n"
        "    model(torch.randn(5, 4, 8))[0].sum().backward()\n"
        "    optimizer.step()\n"
    )
    settings = {"working_directory": tmp_path, "module": "package.train"}
    profile = run(train, "--fast", **SHORT, **settings)

    assert profile.module == "package.train"
    assert profile.iteration is not None
    assert "recurrent network" in profile.iteration.styles


def test_a_loop_in_a_thread_that_swallows_everything(script: Write, run: Run) -> None:
    path = script(
        """
        import os, signal, sys, threading
        import torch

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.chdir("/")
        assert sys.stdin.read() == ""
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def train():
            while True:
                try:
                    optimizer.zero_grad()
                    model(torch.randn(2, 4)).sum().backward()
                    optimizer.step()
                except:
                    pass

        threading.Thread(target=train).start()
        """
    )
    assert run(path, **SHORT).iteration is not None


def test_training_in_spawned_processes_is_observed_in_the_first(script: Write, run: Run) -> None:
    path = script(
        """
        import os
        import torch
        import torch.distributed as dist
        import torch.multiprocessing as mp

        def train(rank, folder):
            dist.init_process_group("gloo", rank=rank, world_size=2, init_method=f"file://{folder}/meet")
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1), bucket_cap_mb=7)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            while True:
                optimizer.zero_grad()
                model(torch.randn(2, 4)).sum().backward()
                optimizer.step()

        if __name__ == "__main__":
            mp.spawn(train, args=(os.path.dirname(__file__),), nprocs=2)
        """
    )
    fact = run(path, **SHORT, side_effects="allow").iteration

    assert fact is not None
    assert (fact.rank, fact.world_size) == (0, 2)
    assert "DistributedDataParallel" in fact.styles
    assert "on rank 0 of 2" in fact.meaning


@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_a_process_that_multiprocessing_starts_is_observed_and_its_files_are_kept(
    how: str, script: Write, run: Run
) -> None:
    """The server of forkserver, the default on Linux from Python 3.14 on, imports the script too."""
    path = script(
        f"""
        import multiprocessing
        import torch

        open("imported", "w").close()

        def train():
            open("trained", "w").close()
            model = torch.nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            while True:
                optimizer.zero_grad()
                model(torch.randn(2, 4)).sum().backward()
                optimizer.step()

        if __name__ == "__main__":
            process = multiprocessing.get_context({how!r}).Process(target=train)
            process.start()
            process.join()
        """
    )
    profile = run(path, **SHORT)

    assert profile.iteration is not None
    assert {path.name for path in path.parent.iterdir()} == {"train.py"}


RANKS = """
import datetime, os, sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
rank = int(os.environ["LOCAL_RANK"])
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1), bucket_cap_mb=7)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100_000):
    if "--fail" in sys.argv and rank == 1 and step == 2:
        raise ValueError("no more data")
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
"""


def test_ranks_are_started_as_torchrun_would(script: Write, run: Run) -> None:
    profile = run(script(RANKS), ranks=2, **SHORT)
    fact, joined = profile.iteration, profile.parallel

    assert fact is not None
    assert (fact.rank, fact.world_size) == (0, 2)
    assert joined is not None
    assert (joined.name, joined.backend, joined.world_size) == ("DistributedDataParallel", "gloo", 2)
    assert (joined.bucket_cap_mb, joined.comm_hook, joined.gradient_bytes) == (7.0, "", 20)
    assert joined.created_line is not None


def test_a_rank_that_fails_is_named(script: Write, run: Run) -> None:
    path = script(RANKS)
    with pytest.raises(ScriptFailed, match="Rank 1: ValueError: no more data") as caught:
        run(path, "--fail", ranks=2, **SHORT)
    assert caught.value.line == 12


def test_training_in_another_program_is_said(script: Write, run: Run) -> None:
    path = script("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'pass  # trains'])\n")
    with pytest.raises(CaptureImpossible) as caught:
        run(path)
    assert "started other programs" in caught.value.message
    assert "pass  # trains" in caught.value.hint
