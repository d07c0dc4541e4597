"""Runs that a launcher starts: the setting ``profile.launcher``, the option of a run, and the script's ranks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.capture.request import CaptureRequest
from skyline.errors import UsageError
from skyline.report import protocol
from skyline.settings.source import from_words
from skyline_lsp.launched import LaunchedRun
from skyline_lsp.options import ProfileOptions
from skyline_lsp.profiler import Profiler
from skyline_lsp.server import SkylineServer

TORCHRUN = ("torchrun", "--nproc-per-node", "2")


def run_of(folder: Path, launcher: tuple[str, ...], **changes: object) -> LaunchedRun:
    request = CaptureRequest(folder / "train.py", ("--lr", "1"), working_directory=folder)
    return LaunchedRun(replace(request, **changes), launcher)


def test_without_a_launcher_the_request_is_the_run(tmp_path: Path) -> None:
    run = run_of(tmp_path, ())
    assert run.launched() is run.request
    assert run.words == (str(tmp_path / "train.py"), "--lr", "1")


def test_a_launcher_gives_ranks_arguments_and_variables(tmp_path: Path) -> None:
    ranks = run_of(tmp_path, TORCHRUN).launched()
    assert (ranks.ranks, ranks.arguments, ranks.variables) == (2, ("--lr", "1"), ())
    module = run_of(tmp_path, ("python", "-m", "torch.distributed.run", *TORCHRUN[1:]), module="p.train")
    assert (module.launched().ranks, module.launched().module) == (2, "p.train")
    deepspeed = run_of(tmp_path, ("deepspeed", "--num_gpus", "2")).launched()
    assert deepspeed.arguments == ("--local_rank=0", "--lr", "1")


def test_variables_of_the_settings_go_over_those_of_the_launcher(tmp_path: Path) -> None:
    alone = run_of(tmp_path, ("torchrun",), variables=(("MASTER_PORT", "29501"), ("SEED", "7"))).launched()
    variables = dict(alone.variables)
    assert (variables["WORLD_SIZE"], variables["MASTER_PORT"], variables["SEED"]) == ("1", "29501", "7")


def test_files_of_a_launcher_are_those_of_the_folder_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "ranks.yaml").write_text("num_processes: 3\n")
    run = run_of(tmp_path, ("accelerate", "launch", "--config_file", "ranks.yaml"))
    assert run.launched().ranks == 3


@pytest.mark.parametrize(
    ("launcher", "message"),
    [
        (("slurm-run",), "`slurm-run` is not a launcher that Skyline supports"),
        (("python", "-m", "pytest"), "`python -m pytest` is not a launcher"),
        (("torchrun", "--nnodes", "2"), "Only training on one machine"),
    ],
)
def test_words_that_start_no_training_are_named(
    launcher: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        run_of(tmp_path, launcher).launched()


def test_the_option_of_a_run_goes_over_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, notebook = tmp_path / "train.py", tmp_path / "train.ipynb"
    script.write_text("import torch\n")
    notebook.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')

    async def ask() -> list[tuple[str, ...]]:
        server = SkylineServer(from_words(('profile.launcher=["torchrun"]',)))
        # A workspace is there only once a client has said so.
        monkeypatch.setattr(SkylineServer, "folder_of", lambda *_: str(tmp_path))
        profiler = server.profiler = Profiler(server, asyncio.get_running_loop())
        states = [server.scripts.ensure(path.as_uri(), str(path)) for path in (script, notebook)]
        found = [profiler.run_for(state).launcher for state in states]
        states[0].options = ProfileOptions(launcher=())
        return [*found, profiler.run_for(states[0]).launcher]

    setting, cells, option = asyncio.run(ask())
    assert setting == ("torchrun",)
    assert cells == (), "Jupyter starts the kernel of a notebook"
    assert option == ()


RANKS = """\
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1000):
    optimizer.zero_grad()
    model(torch.randn(16, 32)).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.capture
async def test_an_editor_profiles_the_first_of_two_ranks(project: Path, start_editor) -> None:
    editor = await start_editor({"profile": {"launcher": list(TORCHRUN), "device": "cpu"}})
    (project / "ranks.py").write_text(RANKS)
    script = editor.open(project / "ranks.py", RANKS)
    await editor.run(protocol.COMMAND_PROFILE, script, {"steps": 4, "warmup": 2, "batchPoints": 0})
    change = await editor.next_change(lambda change: change["profileId"] or change["error"])
    assert change["error"] is None
    report = await editor.ask(protocol.PROFILE, uri=script)
    assert (report["iteration"]["rank"], report["iteration"]["world_size"]) == (0, 2)
